// The last log line of containers that failed, read once for each run.

import { SvelteMap } from 'svelte/reactivity';
import { Failure, text, type KubeObject } from './api';
import { failedRun } from './problems';
import { route } from './route.svelte';

const LINES = 5;
const BYTES_MAX = 4_096;

class Tails {
  private lines = new SvelteMap<string, string>();
  private asked = new Set<string>();
  /** Whether the user may not read logs: asking again is useless. */
  private isRefused = false;

  /** The line, once it is known. */
  get(pod: KubeObject): string {
    return this.lines.get(key(pod)) ?? '';
  }

  /** Reads the line unless that was done. Logs of the past are not kept. */
  read(pod: KubeObject) {
    const failed = failedRun(pod);
    const id = key(pod);
    if (!failed || this.isRefused || route.at || this.asked.has(id)) return;
    if (pod.metadata.deletionTimestamp) return;
    this.asked.add(id);
    void this.load(pod, failed, id);
  }

  private async load(pod: KubeObject, { name, status }: { name: string; status: { state?: { running?: unknown } } }, id: string) {
    const { namespace, name: podName } = pod.metadata;
    const previous = status.state?.running ? '&previous=true' : '';
    const query = `container=${name}&tailLines=${LINES}&limitBytes=${BYTES_MAX}${previous}`;
    try {
      const log = await text(`/api/v1/namespaces/${namespace}/pods/${podName}/log?${query}`, {
        isLive: true,
      });
      this.lines.set(id, log.trimEnd().split('\n').at(-1)?.trim() ?? '');
    } catch (error) {
      if (error instanceof Failure && error.code === 403) this.isRefused = true;
    }
  }
}

function key(pod: KubeObject): string {
  const failed = failedRun(pod);
  return `${pod.metadata.uid} ${failed?.name ?? ''} ${failed?.run.finishedAt ?? ''}`;
}

export const tails = new Tails();
