// Pods that run although a warning was recorded for them: the phase of a pod whose container exits
// again and again is still `Running`. One list is read for all of them, so that no request names a
// pod that was deleted.

import { request, type KubeObject } from './api';

const PAGE_PODS = 500;
const PAGES_MAX = 4;
/** Shortest time between two reads. */
const READ_MILLISECONDS = 3_000;

export class Suspects {
  pods = $state.raw<KubeObject[]>([]);
  private names = new Set<string>();
  private ending = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private last = 0;

  constructor(private readonly path: string) {}

  /** Stops reading; to be returned by an effect. */
  stop() {
    this.ending.abort();
    clearTimeout(this.timer);
  }

  /** Follows the pods of warning events. */
  follow(events: KubeObject[]) {
    this.names = new Set();
    for (const { involvedObject } of events) {
      const { kind, namespace, name } = involvedObject ?? {};
      if (kind === 'Pod') this.names.add(`${namespace}/${name}`);
    }
    if (this.names.size === 0) {
      this.pods = [];
      return;
    }
    const wait = Math.max(0, this.last + READ_MILLISECONDS - Date.now());
    this.timer ??= setTimeout(() => void this.read(), wait);
  }

  private async read() {
    this.last = Date.now();
    this.timer = undefined;
    const { signal } = this.ending;
    const found: KubeObject[] = [];
    let more = '';
    try {
      for (let page = 0; page < PAGES_MAX; page += 1) {
        const next = more ? `&continue=${encodeURIComponent(more)}` : '';
        const query = `fieldSelector=status.phase%3DRunning&limit=${PAGE_PODS}${next}`;
        const list = await request(`${this.path}?${query}`, { signal });
        for (const pod of (list.items ?? []) as KubeObject[]) {
          const { namespace = '', name } = pod.metadata;
          if (this.names.has(`${namespace}/${name}`)) found.push(pod);
        }
        more = list.metadata?.continue ?? '';
        if (!more) break;
      }
    } catch {
      // The list of pods that do not run says why pods cannot be read.
      return;
    }
    if (!signal.aborted) this.pods = found;
  }
}
