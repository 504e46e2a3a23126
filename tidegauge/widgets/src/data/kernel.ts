// Kernel connection: request/reply messages over the widget's comm, JSON plus binary arrays.

import type { AnyModel } from "@anywidget/types";
import type { ErrorReply, Questions, Reply, Request } from "./protocol";

/** Typed array of an answer. */
export type NumberArray = Uint8Array | Int32Array | Float32Array | Float64Array;

/** Answer of the kernel: JSON data, and typed arrays with their shapes. */
export interface Answer<D, A = Record<string, NumberArray>> {
  data: D;
  arrays: A;
  shapes: Record<string, readonly number[]>;
}

/** Name of a question. */
export type QuestionName = keyof Questions;
/** Answer to a question. */
export type AnswerTo<Q extends QuestionName> = Answer<Questions[Q]["answer"], Questions[Q]["arrays"]>;

/** Timing and size of a request, for benchmarks/dashboard.py. */
export interface RequestTiming {
  question: string;
  startedAt: number;
  milliseconds: number;
  kernel: number;
  bytes: number;
}

const ARRAY_TYPES: Record<string, new (buffer: ArrayBuffer) => NumberArray> = {
  u1: Uint8Array,
  i4: Int32Array,
  f4: Float32Array,
  f8: Float64Array,
};

/**
 * State of the server or kernel. A server (`served`) answers every request, if only with an error. A `lost` kernel no longer
 * knows this page. If the state is `unknown`, the page cannot detect whether the kernel is busy, as in VS Code.
 */
export type Connection = "served" | "idle" | "busy" | "unknown" | "lost";

/** Time without an answer after which requests fail, in milliseconds. Busy kernels have no time limit. */
export const ANSWER_TIMEOUT_MS = { idle: 10_000, unknown: 60_000 };
const CHECK_INTERVAL_MS = 500;

interface PendingRequest {
  resolve(answer: Answer<unknown>): void;
  reject(error: Error): void;
  question: string;
  startedAt: number;
}

/** Error raised in the kernel; `kind` is the name of the Python exception. */
export class KernelError extends Error {
  constructor(
    message: string,
    readonly kind: string,
  ) {
    super(message);
  }
}

/** Error if Python was restarted or never started, as in a saved notebook. */
export class DisconnectedError extends Error {
  constructor() {
    super("Not connected: Python was restarted, or this notebook was opened without it. Run this cell again.");
  }
}

/** Connection of a page to the kernel or server. */
export class KernelLink {
  readonly log: RequestTiming[] = [];
  /** Version of the catalogue that row and column numbers refer to; sent with every request. */
  catalogue: number | null = null;
  private readonly pending = new Map<string, PendingRequest>();
  private requestCount = 0;
  private timer: ReturnType<typeof setInterval> | undefined;
  /** Time when the kernel was last busy, sent an answer, or received a request without others pending. */
  private lastActivity = 0;
  // Several pages can show the same widget. Each receives all replies and selects its own by this prefix of ids.
  private readonly clientId = Math.random().toString(36).slice(2);
  private readonly onMessage = (message: Reply | ErrorReply, buffers: DataView[]) => this.handleReply(message, buffers);

  constructor(
    private readonly model: AnyModel,
    private readonly connection: () => Connection,
  ) {
    model.on("msg:custom", this.onMessage);
  }

  /**
   * Send a question. The promise resolves to the answer, or rejects with a `KernelError` or a `DisconnectedError`. Rows and
   * columns refer to `catalogue`, by default the catalogue of all tables.
   */
  ask<Q extends QuestionName>(question: Q, params: Questions[Q]["params"], catalogue = this.catalogue): Promise<AnswerTo<Q>> {
    const id = `${this.clientId}:${++this.requestCount}`;
    return new Promise((resolve, reject) => {
      // The kernel answers each question with its own types; see protocol.py.
      const settle = resolve as (answer: Answer<unknown>) => void;
      if (!this.pending.size) this.lastActivity = performance.now();
      this.pending.set(id, { resolve: settle, reject, question, startedAt: performance.now() });
      const request: Request = { id, question, params: params as Request["params"], catalogue };
      if (this.connection() === "lost") return this.disconnect();
      try {
        this.model.send(request); // throws if the kernel was restarted, but not if there never was a kernel
      } catch {
        return this.disconnect();
      }
      this.timer ??= setInterval(() => this.checkPending(), CHECK_INTERVAL_MS);
    });
  }

  close(): void {
    this.model.off("msg:custom", this.onMessage);
    this.pending.clear();
    this.stopTimer();
  }

  /** Fail all requests if no answer can be expected. */
  private checkPending(): void {
    if (!this.pending.size) return this.stopTimer();
    const connection = this.connection();
    const now = performance.now();
    if (connection === "lost") this.disconnect();
    else if (connection === "busy" || connection === "served") this.lastActivity = now;
    else if (now - this.lastActivity >= ANSWER_TIMEOUT_MS[connection]) this.disconnect();
  }

  private disconnect(): void {
    const requests = [...this.pending.values()];
    this.pending.clear();
    this.stopTimer();
    requests.forEach(({ reject }) => reject(new DisconnectedError()));
  }

  private stopTimer(): void {
    clearInterval(this.timer);
    this.timer = undefined;
  }

  private handleReply(message: Reply | ErrorReply, buffers: DataView[]): void {
    const pending = this.pending.get(message.id);
    if (!pending) return;
    this.pending.delete(message.id);
    this.lastActivity = performance.now();
    const { question, startedAt } = pending;
    const milliseconds = performance.now() - startedAt;
    const bytes = buffers.reduce((sum, b) => sum + b.byteLength, 0);
    this.log.push({ question, startedAt, milliseconds, kernel: 1000 * (message.seconds ?? 0), bytes });
    if (this.log.length > 2000) this.log.shift();
    if ("error" in message) {
      pending.reject(new KernelError(message.error, message.kind));
      return;
    }
    const arrays: Record<string, NumberArray> = {};
    const shapes: Record<string, readonly number[]> = {};
    message.arrays.forEach(([name, type, shape], n) => {
      // Copied, because received buffers may not be aligned to their element type.
      const { buffer, byteOffset, byteLength } = buffers[n];
      arrays[name] = new ARRAY_TYPES[type]((buffer as ArrayBuffer).slice(byteOffset, byteOffset + byteLength));
      shapes[name] = shape;
    });
    pending.resolve({ data: message.payload, arrays, shapes });
  }
}
