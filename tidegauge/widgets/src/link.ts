// Questions to the kernel, and its answers: words as JSON, numbers as bytes.

import type { AnyModel } from "@anywidget/types";

export type Numbers = Uint8Array | Int32Array | Float32Array | Float64Array;

export interface Answer<T> {
  told: T;
  arrays: Record<string, Numbers>;
  shapes: Record<string, number[]>;
}

/** What one question cost; the benchmark reads it. */
export interface Asked {
  ask: string;
  at: number;
  milliseconds: number;
  kernel: number;
  bytes: number;
}

const TYPES: Record<string, new (buffer: ArrayBuffer) => Numbers> = {
  u1: Uint8Array,
  i4: Int32Array,
  f4: Float32Array,
  f8: Float64Array,
};

interface Waiting {
  resolve(answer: Answer<any>): void;
  reject(error: Error): void;
  ask: string;
  at: number;
}

/** What the kernel says is wrong; `kind` is the name of the error there. */
export class KernelError extends Error {
  constructor(
    message: string,
    readonly kind: string,
  ) {
    super(message);
  }
}

export class Link {
  readonly log: Asked[] = [];
  /** The number of the catalogue by whose places rows and columns are named. */
  catalogue: number | null = null;
  private readonly waiting = new Map<string, Waiting>();
  private count = 0;
  // Several pages may look at one widget: each hears all answers and knows its own.
  private readonly name = Math.random().toString(36).slice(2);
  private readonly hear = (message: any, buffers: DataView[]) => this.answered(message, buffers);

  constructor(private readonly model: AnyModel) {
    model.on("msg:custom", this.hear);
  }

  ask<T = any>(ask: string, about: object = {}): Promise<Answer<T>> {
    const id = `${this.name}:${++this.count}`;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, ask, at: performance.now() });
      this.model.send({ id, ask, about, catalogue: this.catalogue });
    });
  }

  close(): void {
    this.model.off("msg:custom", this.hear);
    this.waiting.clear();
  }

  private answered(message: any, buffers: DataView[]): void {
    const waiting = this.waiting.get(message.id);
    if (!waiting) return;
    this.waiting.delete(message.id);
    const { ask, at } = waiting;
    const milliseconds = performance.now() - at;
    const bytes = buffers.reduce((sum, b) => sum + b.byteLength, 0);
    this.log.push({ ask, at, milliseconds, kernel: 1000 * (message.seconds ?? 0), bytes });
    if (this.log.length > 2000) this.log.shift();
    if (message.error !== undefined) {
      waiting.reject(new KernelError(message.error, message.kind));
      return;
    }
    const arrays: Record<string, Numbers> = {};
    const shapes: Record<string, number[]> = {};
    (message.arrays ?? []).forEach(([name, type, shape]: [string, string, number[]], n: number) => {
      // A copy: what arrives need not lie where its type may begin.
      const { buffer, byteOffset, byteLength } = buffers[n];
      arrays[name] = new TYPES[type]((buffer as ArrayBuffer).slice(byteOffset, byteOffset + byteLength));
      shapes[name] = shape;
    });
    waiting.resolve({ told: message.told, arrays, shapes });
  }
}
