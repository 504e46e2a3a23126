// Binary answers of the server: the length of the JSON in four bytes, the JSON, and the buffers of its arrays.

import type { ErrorReply, Reply } from "./protocol";

/** Decode an answer. The JSON contains the types and shapes of the arrays, which determine the sizes of the buffers. */
export function decodeFrame(frame: ArrayBuffer): [Reply | ErrorReply, DataView[]] {
  const length = new DataView(frame).getUint32(0, true);
  const message = JSON.parse(new TextDecoder().decode(new Uint8Array(frame, 4, length))) as Reply | ErrorReply;
  const buffers: DataView[] = [];
  let offset = 4 + length;
  if (!("error" in message)) {
    for (const [, type, shape] of message.arrays) {
      const size = Number(type.slice(1)) * shape.reduce((product, n) => product * n, 1);
      buffers.push(new DataView(frame, offset, size));
      offset += size;
    }
  }
  return [message, buffers];
}
