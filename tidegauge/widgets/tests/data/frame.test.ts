import assert from "node:assert/strict";
import test from "node:test";
import { decodeFrame } from "../../src/data/frame";

function frame(text: string, ...bytes: number[]): ArrayBuffer {
  const json = new TextEncoder().encode(text);
  return new Uint8Array([json.length, 0, 0, 0, ...json, ...bytes]).buffer;
}

test("buffers follow the JSON in the order and sizes of its arrays", () => {
  const [message, buffers] = decodeFrame(frame('{"id":"é","payload":{},"arrays":[["a","u1",[2,2]],["b","i4",[1]],["c","f8",[0]]]}', 1, 2, 3, 4, 5, 1, 0, 0));
  assert.equal(message.id, "é");
  assert.deepEqual(buffers.map((buffer) => buffer.byteLength), [4, 4, 0]);
  assert.equal(buffers[0].getUint8(3), 4);
  assert.equal(buffers[1].getInt32(0, true), 261);
});

test("an error has no buffers", () => {
  const [message, buffers] = decodeFrame(frame('{"id":"1","error":"gone","kind":"E"}'));
  assert.ok("error" in message && message.error === "gone");
  assert.deepEqual(buffers, []);
});
