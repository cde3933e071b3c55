// Reads answers of the OpenAI chat API, streamed or not.

import { lines, type Json } from './api';

/** The pieces of text of an answer, as they arrive. */
export async function* pieces(response: Response, signal?: AbortSignal): AsyncGenerator<string> {
  // Some servers ignore `stream`: what they send is one JSON document instead of events.
  let document = '';
  for await (const line of lines(response, signal)) {
    if (/^(event|id|retry):|^:/.test(line)) continue;
    if (!line.startsWith('data:')) {
      document += `${line}\n`;
      continue;
    }
    const data = line.slice('data:'.length).trim();
    if (!data || data === '[DONE]') continue;
    yield textOf(JSON.parse(data));
  }
  if (document.trim() && !signal?.aborted) yield textOf(parse(document));
}

function parse(text: string): Json {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`The answer is not JSON: ${text.slice(0, 200)}`);
  }
}

/** The text of a chunk or of a complete answer. */
function textOf(answer: Json): string {
  if (answer.error) throw new Error(answer.error.message ?? JSON.stringify(answer.error));
  const choice = answer.choices?.[0] ?? {};
  const content = choice.delta?.content ?? choice.message?.content ?? choice.text ?? '';
  if (!Array.isArray(content)) return String(content);
  return content.map((part: Json) => part?.text ?? '').join('');
}
