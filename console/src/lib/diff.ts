// The lines that differ between two texts, with a few unchanged lines around them.

export interface DiffLine {
  sign: ' ' | '+' | '-' | '…';
  text: string;
}

const CONTEXT_LINES = 3;
/** Texts beyond this are compared as a whole: the table would be too large. */
const LINES_MAX = 3_000;

/** Lengths of the longest common subsequences of the ends of both texts. */
function lengths(before: string[], after: string[]): Uint16Array[] {
  const table = Array.from({ length: before.length + 1 }, () => new Uint16Array(after.length + 1));
  for (let row = before.length - 1; row >= 0; row -= 1) {
    const [own, below] = [table[row] as Uint16Array, table[row + 1] as Uint16Array];
    for (let column = after.length - 1; column >= 0; column -= 1) {
      own[column] =
        before[row] === after[column]
          ? (below[column + 1] ?? 0) + 1
          : Math.max(below[column] ?? 0, own[column + 1] ?? 0);
    }
  }
  return table;
}

function all(before: string[], after: string[]): DiffLine[] {
  if (before.length > LINES_MAX || after.length > LINES_MAX) {
    const lines = (sign: '+' | '-', texts: string[]) => texts.map((text) => ({ sign, text }));
    return [...lines('-', before), ...lines('+', after)];
  }
  const table = lengths(before, after);
  const found: DiffLine[] = [];
  let [row, column] = [0, 0];
  while (row < before.length || column < after.length) {
    const [old, next] = [before[row], after[column]];
    if (old !== undefined && old === next) {
      found.push({ sign: ' ', text: old });
      row += 1;
      column += 1;
    } else if (
      next !== undefined &&
      (old === undefined || (table[row]?.[column + 1] ?? 0) > (table[row + 1]?.[column] ?? 0))
    ) {
      found.push({ sign: '+', text: next });
      column += 1;
    } else {
      found.push({ sign: '-', text: old ?? '' });
      row += 1;
    }
  }
  return found;
}

export function diff(before: string, after: string): DiffLine[] {
  const lines = all(before.split('\n'), after.split('\n'));
  const changed = lines.flatMap(({ sign }, index) => (sign === ' ' ? [] : [index]));
  const isNear = (index: number) => changed.some((at) => Math.abs(at - index) <= CONTEXT_LINES);
  const shown: DiffLine[] = [];
  for (const [index, line] of lines.entries()) {
    if (isNear(index)) shown.push(line);
    else if (shown.length && shown.at(-1)?.sign !== '…') shown.push({ sign: '…', text: '' });
  }
  if (shown.at(-1)?.sign === '…') shown.pop();
  return shown;
}
