// The text of a serial console: enough of a terminal for shells and boot messages. What draws
// pictures with escapes is left out rather than shown as noise.

const LINES_MAX = 1_000;
const ESCAPE =
  /\x1b(?:\[[0-9;?]*[A-Za-z@`]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Za-z0-9]|[=>78cDEHM])/;

export class Terminal {
  private lines: string[] = [''];
  private column = 0;
  private rest = '';

  write(text: string) {
    let left = this.rest + text;
    this.rest = '';
    while (left) {
      const at = left.indexOf('\x1b');
      if (at < 0) return this.plain(left);
      this.plain(left.slice(0, at));
      left = left.slice(at);
      const found = ESCAPE.exec(left);
      if (!found || found.index !== 0) {
        // It may be whole with what comes next; what is never whole is one character.
        if (left.length < 32) {
          this.rest = left;
          return;
        }
        left = left.slice(1);
        continue;
      }
      this.command(found[0]);
      left = left.slice(found[0].length);
    }
  }

  private command(escape: string) {
    const last = this.lines.length - 1;
    const line = this.lines[last] ?? '';
    if (escape.endsWith('K')) this.lines[last] = line.slice(0, this.column);
    if (escape.endsWith('J') && /2J|3J/.test(escape)) {
      this.lines = [''];
      this.column = 0;
    } else if (escape.endsWith('J')) {
      this.lines[last] = line.slice(0, this.column);
    }
    const count = Number(/\[(\d+)/.exec(escape)?.[1] ?? 1);
    if (escape.endsWith('D')) this.column = Math.max(0, this.column - count);
    if (escape.endsWith('C')) this.column += count;
  }

  private plain(text: string) {
    for (const character of text) {
      const last = this.lines.length - 1;
      if (character === '\n') {
        this.lines.push('');
        this.column = 0;
      } else if (character === '\r') this.column = 0;
      else if (character === '\b') this.column = Math.max(0, this.column - 1);
      else if (character >= ' ' || character === '\t') {
        const line = (this.lines[last] ?? '').padEnd(this.column, ' ');
        this.lines[last] = line.slice(0, this.column) + character + line.slice(this.column + 1);
        this.column += 1;
      }
    }
    if (this.lines.length > LINES_MAX) this.lines = this.lines.slice(-LINES_MAX);
  }

  text(): string {
    return this.lines.join('\n');
  }
}

const KEYS: Record<string, string> = {
  Enter: '\r',
  Backspace: '\x7f',
  Escape: '\x1b',
  ArrowUp: '\x1b[A',
  ArrowDown: '\x1b[B',
  ArrowRight: '\x1b[C',
  ArrowLeft: '\x1b[D',
  Home: '\x1b[H',
  End: '\x1b[F',
  Delete: '\x1b[3~',
};

/** What a key sends, if it sends anything. Tab moves on: keyboards must not be trapped. */
export function typedBy(event: KeyboardEvent): string {
  if (event.metaKey || event.altKey) return '';
  if (event.ctrlKey) {
    const letter = event.key.toLowerCase();
    // Ctrl-K is the palette, Ctrl-I would be Tab.
    if (event.shiftKey || letter === 'k' || !/^[a-z]$/.test(letter)) return '';
    return letter === 'i' ? '\t' : String.fromCharCode(letter.charCodeAt(0) - 96);
  }
  return KEYS[event.key] ?? (event.key.length === 1 ? event.key : '');
}
