import assert from "node:assert/strict";
import test from "node:test";
import type { AnyModel } from "@anywidget/types";
import { ANSWER_TIMEOUT_MS, type Connection, DisconnectedError, KernelLink } from "../../src/data/kernel";

/** Return a model that calls `send` for each request, its recorded requests, and a function that answers one. */
function fakeModel(send: () => void = () => {}) {
  const requests: { id: string }[] = [];
  let listener: (message: object, buffers: DataView[]) => void = () => {};
  const model = {
    on: (_: string, callback: typeof listener) => (listener = callback),
    off: () => {},
    send: (request: { id: string }) => {
      send();
      requests.push(request);
    },
  };
  const answer = (n: number) => listener({ id: requests[n].id, seconds: 0, payload: { commits: n }, arrays: [] }, []);
  return { model: model as unknown as AnyModel, requests, answer };
}

/** Return the state of a promise after all pending callbacks ran. */
async function stateOf(promise: Promise<unknown>): Promise<string> {
  const settled = promise.then(
    () => "answered",
    (error) => (error instanceof DisconnectedError ? "disconnected" : String(error)),
  );
  return Promise.race([settled, new Promise<string>((resolve) => setImmediate(() => resolve("pending")))]);
}

/** Mock `setInterval` and `performance.now`; return a function that advances both. */
function mockClock(t: test.TestContext): (milliseconds: number) => void {
  t.mock.timers.enable({ apis: ["setInterval"] });
  let now = 0;
  t.mock.method(performance, "now", () => now);
  return (milliseconds) => {
    for (const end = now + milliseconds; now < end; ) {
      now += 100;
      t.mock.timers.tick(100);
    }
  };
}

test("a request to a restarted kernel, whose connection throws, fails at once with instructions", async () => {
  const { model } = fakeModel(() => {
    throw new Error("Cannot send");
  });
  const pending = new KernelLink(model, () => "idle").ask("commits", {});
  await assert.rejects(pending, { message: "Not connected: Python was restarted, or this notebook was opened without it. Run this cell again." });
});

test("a saved notebook sends nothing, and its requests fail at once if the kernel is known to be lost", async () => {
  const { model, requests } = fakeModel();
  const pending = new KernelLink(model, () => "lost").ask("commits", {});
  assert.equal(await stateOf(pending), "disconnected");
  assert.equal(requests.length, 0);
});

for (const connection of ["idle", "unknown"] as const) {
  test(`unanswered requests time out if the kernel is ${connection}`, async (t) => {
    const advance = mockClock(t);
    const { model } = fakeModel();
    const link = new KernelLink(model, () => connection);
    const pending = [link.ask("commits", {}), link.ask("commits", {})];
    advance(ANSWER_TIMEOUT_MS[connection] - 600);
    assert.equal(await stateOf(pending[0]), "pending");
    advance(1200);
    assert.deepEqual(await Promise.all(pending.map(stateOf)), ["disconnected", "disconnected"]);
  });
}

test("a busy kernel and a server have no time limit, and the limit of an idle kernel starts afterwards", async (t) => {
  const advance = mockClock(t);
  let connection: Connection = "busy";
  const { model, answer } = fakeModel();
  const link = new KernelLink(model, () => connection);
  const pending = [link.ask("commits", {}), link.ask("commits", {})];
  advance(100_000);
  connection = "served";
  advance(100_000);
  connection = "idle";
  advance(ANSWER_TIMEOUT_MS.idle - 1000);
  answer(0);
  assert.equal(await stateOf(pending[0]), "answered");
  advance(ANSWER_TIMEOUT_MS.idle - 1000); // an answer shows that the kernel is there
  assert.equal(await stateOf(pending[1]), "pending");
  connection = "lost"; // as by a restart
  advance(600);
  assert.equal(await stateOf(pending[1]), "disconnected");
  connection = "idle"; // the cell was run again: another request is answered
  const nextAnswer = link.ask("commits", {});
  answer(2);
  assert.equal(await stateOf(nextAnswer), "answered");
  t.mock.timers.reset();
});
