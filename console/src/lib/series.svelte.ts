// What a trainer reports, over time: seen while the page is open, and before that from the past.

import { HISTORY, request, type Json, type KubeObject } from './api';
import type { Revision } from './history.svelte';

export interface Point {
  time: number;
  percent: number | undefined;
  metrics: Record<string, number>;
}

const POINTS_MAX = 2_000;
const REVISIONS_MAX = 500;

export class Series {
  points = $state.raw<Point[]>([]);
  private known = new Map<number, Point>();

  see(object: KubeObject) {
    const report = object.status?.trainerStatus;
    if (report) this.put(report, report.lastUpdatedTime ?? '');
  }

  private put(report: Json, time: string) {
    const metrics: Record<string, number> = {};
    for (const one of report.metrics ?? []) {
      const value = Number(one.value);
      if (one.name && Number.isFinite(value)) metrics[one.name] = value;
    }
    const at = Date.parse(time) || Date.now();
    this.known.set(at, { time: at, percent: report.progressPercentage, metrics });
    this.show();
  }

  private show() {
    const all = [...this.known.values()].sort((one, other) => one.time - other.time);
    this.points = all.slice(-POINTS_MAX);
  }

  /** Takes what was reported before the page was opened, from what changed in each revision. */
  async recall(path: string) {
    const page = await request(`${HISTORY}/revisions${path}?limit=${REVISIONS_MAX}`);
    const revisions: Revision[] = [...(page.items ?? [])].reverse();
    let status: Json = {};
    for (const revision of revisions) {
      let isTouched = false;
      for (const { path: place, to } of revision.changes ?? []) {
        const parts = place.split(/[.[\]]+/).filter(Boolean);
        if (parts[0] !== 'status' || !['trainerStatus', undefined].includes(parts[1])) continue;
        status = written(status, parts.slice(1), to);
        isTouched = true;
      }
      const report = status?.trainerStatus;
      if (isTouched && report) this.put(report, report.lastUpdatedTime ?? revision.time);
    }
  }

  get names(): string[] {
    const all = new Set(this.points.flatMap((point) => Object.keys(point.metrics)));
    return [...all].sort((one, other) => Number(/loss/.test(other)) - Number(/loss/.test(one)));
  }
}

/** The value with one place in it changed; what stood there before is left alone. */
function written(value: Json, path: string[], to: unknown): Json {
  const [first, ...rest] = path;
  if (first === undefined) return to;
  if (Array.isArray(value)) {
    // Items of a list are told apart by their name: `metrics[loss].value`.
    const found = value.findIndex((item) => item?.name === first);
    const at = found < 0 ? value.length : found;
    const item = written(value[at] ?? { name: first }, rest, to);
    return [...value.slice(0, at), item, ...value.slice(at + 1)];
  }
  return { ...(value ?? {}), [first]: written(value?.[first], rest, to) };
}
