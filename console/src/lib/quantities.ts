// Amounts of resources, as Kubernetes writes them.

const SIZES: Record<string, number> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
};

export function amount(text: string): number {
  const found = /^([-+]?[\d.]+(?:[eE][-+]?\d+)?)([A-Za-z]*)$/.exec(text.trim());
  if (!found) return 0;
  return Number(found[1]) * (SIZES[found[2] ?? ''] ?? 1);
}

export function show(resource: string, value: number): string {
  if (/memory|storage/.test(resource)) {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    const step = value < 1 ? 0 : Math.min(4, Math.floor(Math.log2(value) / 10));
    return `${Number((value / 2 ** (10 * step)).toFixed(1))} ${units[step]}`;
  }
  return String(Number(value.toFixed(2)));
}
