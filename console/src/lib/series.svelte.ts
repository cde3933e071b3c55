// What a trainer reports, over time: seen while the page is open, and before that from the past.

import { question, request, type Json, type KubeObject } from './api';
import type { Revision } from './history.svelte';

export interface Point {
  time: number;
  percent: number | undefined;
  metrics: Record<string, number>;
}

const POINTS_MAX = 2_000;
const PAGE_REVISIONS = 500;
/** How far back reports are looked for. */
const PAGES_MAX = 10;

export class Series {
  points = $state.raw<Point[]>([]);
  /** Why what was reported before is not shown. */
  problem = $state('');
  private known = new Map<number, Point>();
  private recalled = 0;

  see(object: KubeObject) {
    const report = object.status?.trainerStatus;
    if (report) this.put(report, report.lastUpdatedTime ?? '');
    this.show();
  }

  private put(report: Json, time: string) {
    const metrics: Record<string, number> = {};
    for (const one of Array.isArray(report.metrics) ? report.metrics : []) {
      const value = Number(one?.value);
      if (one?.name && Number.isFinite(value)) metrics[one.name] = value;
    }
    const at = Date.parse(time) || Date.now();
    this.known.set(at, { time: at, percent: report.progressPercentage, metrics });
  }

  private show() {
    const all = [...this.known.values()].sort((one, other) => one.time - other.time);
    this.points = all.slice(-POINTS_MAX);
  }

  /** Adds what was reported until the moment that the page shows, as each revision says what it
      changed. */
  async recall(path: string) {
    const own = ++this.recalled;
    this.problem = '';
    const found: Revision[] = [];
    try {
      let more = '';
      for (let page = 0; page < PAGES_MAX; page++) {
        const limit = String(PAGE_REVISIONS);
        const options: Record<string, string> = more ? { limit, continue: more } : { limit };
        const list = await request(question('revisions', path, options));
        if (own !== this.recalled) return;
        found.push(...(list.items ?? []));
        more = list.metadata?.continue ?? '';
        if (!more) break;
      }
    } catch (error) {
      if (own !== this.recalled) return;
      this.problem = error instanceof Error ? error.message : String(error);
    }
    // The history of a name includes jobs that were deleted before this one was created.
    const created = found.findIndex((revision) => revision.type === 'Created');
    const ofThisJob = created < 0 ? found : found.slice(0, created + 1);
    let status: Json = {};
    for (const revision of ofThisJob.reverse()) {
      let isTouched = false;
      for (const { path: place, to } of revision.changes ?? []) {
        const parts = partsOf(place);
        if (parts[0]?.name !== 'status') continue;
        if (!['trainerStatus', undefined].includes(parts[1]?.name)) continue;
        status = written(status, parts.slice(1), to);
        isTouched = true;
      }
      const report = status?.trainerStatus;
      if (isTouched && report && typeof report === 'object') {
        this.put(report, report.lastUpdatedTime ?? revision.time);
      }
    }
    this.show();
  }

  get names(): string[] {
    const all = new Set(this.points.flatMap((point) => Object.keys(point.metrics)));
    return [...all].sort((one, other) => Number(/loss/.test(other)) - Number(/loss/.test(one)));
  }
}

interface Part {
  name: string;
  /** In brackets: an item of a list, or a key with dots. */
  isBracket: boolean;
}

/** `status.metrics[eval.loss].value` in its parts. */
function partsOf(path: string): Part[] {
  const found = path.matchAll(/\[(.*?)\](?=[.[]|$)|[^.[\]]+/g);
  return [...found].map(([all, inside]) => ({
    name: inside ?? all,
    isBracket: inside !== undefined,
  }));
}

/** The value with one place in it changed; what stood there before is left alone. */
function written(value: Json, path: Part[], to: unknown): Json {
  const [first, ...rest] = path;
  if (first === undefined) return to;
  const isKnown = value !== null && typeof value === 'object';
  if (Array.isArray(value) || (first.isBracket && !isKnown)) {
    // Items of a list are told apart by their name: `metrics[loss].value`.
    const all: Json[] = Array.isArray(value) ? value : [];
    const found = all.findIndex((item) => item?.name === first.name);
    const at = found < 0 ? all.length : found;
    const isGone = rest.length === 0 && (to === null || to === undefined);
    const item = isGone ? [] : [written(all[at] ?? { name: first.name }, rest, to)];
    return [...all.slice(0, at), ...item, ...all.slice(at + 1)];
  }
  const known = isKnown ? value : {};
  return { ...known, [first.name]: written(known[first.name], rest, to) };
}
