// Times for people: how long ago, how long it took, when.

const STEPS: [number, string][] = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'm'],
  [1, 's'],
];

/** `3d4h`, `5m`, `12s`: the largest part, and the next while the largest is small. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [index, [size, unit]] of STEPS.entries()) {
    if (whole < size && size > 1) continue;
    const count = Math.floor(whole / size);
    const next = STEPS[index + 1];
    const rest = next ? Math.floor((whole % size) / next[0]) : 0;
    return count < 10 && rest > 0 && next ? `${count}${unit}${rest}${next[1]}` : `${count}${unit}`;
  }
  return '0s';
}

export function milliseconds(count: number): string {
  if (count < 1) return '<1 ms';
  if (count < 1_000) return `${Math.round(count)} ms`;
  return count < 60_000 ? `${(count / 1_000).toFixed(1)} s` : duration(count / 1_000);
}

/** How long before `now` something was. */
export function since(time: string | undefined, now: number): string {
  if (!time) return '';
  const then = Date.parse(time);
  return Number.isNaN(then) ? '' : duration((now - then) / 1_000);
}

export function clock(time: string | number, withSeconds = true): string {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return String(time);
  return date.toLocaleTimeString(undefined, {
    hour: '2-digit',
    minute: '2-digit',
    second: withSeconds ? '2-digit' : undefined,
  });
}

/** The day too, unless it is today. */
export function moment(time: string | number): string {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return String(time);
  const isToday = date.toDateString() === new Date().toDateString();
  const day = date.toLocaleDateString(undefined, { day: 'numeric', month: 'short' });
  return isToday ? clock(time) : `${day}, ${clock(time)}`;
}
