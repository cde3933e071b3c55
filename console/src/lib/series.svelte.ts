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
    let report: Json = {};
    for (const revision of revisions) {
      let isTouched = false;
      for (const { path: place, to } of revision.changes ?? []) {
        const parts = place.split(/[./[\]]+/).filter(Boolean);
        if (parts[0] !== 'status' || parts[1] !== 'trainerStatus') continue;
        report = written(report, parts.slice(2), to);
        isTouched = true;
      }
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
  // Lists may name an item by its place or by a field of it, as in `metrics[name=loss]`.
  const isPlace = /^\d+$/.test(first);
  if (Array.isArray(value) || isPlace) {
    const list = Array.isArray(value) ? [...value] : [];
    const [key, wanted] = first.split('=');
    const found = list.findIndex((item) => wanted !== undefined && item?.[key ?? ''] === wanted);
    const at = isPlace ? Number(first) : found < 0 ? list.length : found;
    list[at] = written(list[at] ?? {}, rest, to);
    return list;
  }
  return { ...(value ?? {}), [first]: written(value?.[first], rest, to) };
}
