// JSON for people to read, each value as it was written: a parser would round long numbers.

const LONGEST = 100_000;
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** Return JSON with line breaks, and anything else as it is. */
export function pretty(text: string): string {
  if (text.length > LONGEST || !/^\s*[[{]/.test(text)) return text;
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let [result, depth] = ["", 0];
  const tokens = text.match(TOKEN) ?? [];
  tokens.forEach((token, index) => {
    const [before, next] = [tokens[index - 1], tokens[index + 1]];
    const line = () => `\n${"  ".repeat(depth)}`;
    if (token === "}" || token === "]") {
      depth -= 1;
      result += (before === "{" || before === "[" ? "" : line()) + token;
    } else if (token === "{" || token === "[") {
      depth += 1;
      result += token + (next === "}" || next === "]" ? "" : line());
    } else if (token === ",") result += token + line();
    else if (token === ":") result += ": ";
    else result += token.startsWith('"') ? JSON.stringify(JSON.parse(token)) : token;
  });
  return result;
}
