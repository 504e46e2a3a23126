// Entry point of the served page: stores the state of the dashboard in the browser and sends its questions by HTTP.

import type { AnyModel } from "@anywidget/types";
import type { ErrorReply, Reply, Request } from "./data/protocol";
import { decodeFrame } from "./data/frame";
import dashboard from "./dashboard.js";

type Listener = (...values: unknown[]) => void;

/** State and connection of the served page. It replaces the model that a notebook shares with its kernel. */
class PageModel {
  private readonly values: Record<string, unknown>;
  private readonly listeners = new Map<string, Set<Listener>>();

  constructor(values: object) {
    this.values = { view: "home", dataset: null, options: {}, height: 0, in_address: true, ...values };
  }

  get(name: string): unknown {
    return this.values[name];
  }

  set(name: string, value: unknown): void {
    const json = JSON.stringify(value ?? null);
    if (JSON.stringify(this.values[name]) === json) return;
    this.values[name] = JSON.parse(json); // drops undefined values, as sending to a kernel does
    this.emit(`change:${name}`);
  }

  save_changes(): void {}

  on(event: string, listener: Listener): void {
    const eventListeners = this.listeners.get(event) ?? new Set();
    this.listeners.set(event, eventListeners.add(listener));
  }

  off(event: string, listener: Listener): void {
    this.listeners.get(event)?.delete(listener);
  }

  /** Send a question. The answer, or the error, is emitted as an event. */
  send(question: Request): void {
    void ask(question).then(
      ([message, buffers]) => this.emit("msg:custom", message, buffers),
      (error: Error) => this.emit("msg:custom", { id: question.id, error: error.message, kind: error.name }, []),
    );
  }

  private emit(event: string, ...values: unknown[]): void {
    this.listeners.get(event)?.forEach((listener) => listener(...values));
  }
}

async function ask(question: Request): Promise<[Reply | ErrorReply, DataView[]]> {
  const body = JSON.stringify(question);
  const response = await fetch("ask", { method: "POST", body, headers: { "Content-Type": "application/json" } }).catch(() => {
    throw new Error("The server of this page does not respond. To start it, run: tidegauge dashboard");
  });
  if (!response.ok) throw new Error((await response.text()).trim() || `The server answered ${response.status}.`);
  return decodeFrame(await response.arrayBuffer());
}

const model = new PageModel(JSON.parse(document.body.dataset.state ?? "{}"));
delete document.body.dataset.state; // the dashboard uses this attribute for its own state
const renderProps = { model: model as unknown as AnyModel, el: document.body };
dashboard.render(renderProps as unknown as Parameters<typeof dashboard.render>[0]);
