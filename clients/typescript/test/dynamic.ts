// Calls by name, for programs that read which ones to make.
import type { DescMessage, DescMethodServerStreaming, DescMethodUnary, DescService, MessageShape } from "@bufbuild/protobuf";
import * as contract from "../src/index.js";

/** Returns the method that `Service/Method` names. */
export function methodOf(rpc: string): DescMethodUnary | DescMethodServerStreaming {
  const [service = "", name] = rpc.split("/");
  const description = (contract as unknown as Record<string, DescService | undefined>)[service];
  const method = description?.methods.find((it) => it.name === name);
  if (method?.methodKind === "unary") return method as DescMethodUnary;
  if (method?.methodKind === "server_streaming") return method as DescMethodServerStreaming;
  throw new Error(`the contract has no ${rpc}`);
}

/** Yields one message, as a stream takes it. */
export async function* once<I extends DescMessage>(message: MessageShape<I>): AsyncGenerator<MessageShape<I>> {
  yield message;
}
