// Columns of kinds whose printer columns leave out what matters: computed from the objects.

import type { Column, KubeObject } from './api';
import { jobPercent, jobSeconds, jobState } from './states';
import { duration } from './time';

/** A column that is computed; `render` is used where the text changes with time. */
export interface Computed extends Column {
  cell: (object: KubeObject) => string | number;
  render?: (object: KubeObject, now: number) => string;
}

/** A value that was not reported. */
const NONE = '—';

function metric(job: KubeObject, pattern: RegExp): string {
  const all: { name: string; value: string }[] = job.status?.trainerStatus?.metrics ?? [];
  return all.find((one) => pattern.test(one.name))?.value ?? NONE;
}

function nodes(job: KubeObject): number | string {
  const wanted = job.spec?.trainer?.numNodes;
  if (typeof wanted === 'number') return wanted;
  const jobs: { name: string; ready?: number; active?: number }[] = job.status?.jobsStatus ?? [];
  const known = jobs.reduce((sum, one) => sum + (one.active ?? 0), 0);
  return known || NONE;
}

const column = (name: string, cell: Computed['cell'], rest: Partial<Computed> = {}): Computed => ({
  name,
  type: 'string',
  priority: 0,
  cell,
  ...rest,
});

const TRAIN_JOBS: Computed[] = [
  column('Name', (job) => job.metadata.name),
  column('State', jobState),
  column('Progress', (job) => {
    const percent = jobPercent(job);
    return percent === undefined ? NONE : `${percent}%`;
  }),
  column('Loss', (job) => metric(job, /loss/i)),
  column('Nodes', nodes),
  column('Duration', (job) => job.metadata.creationTimestamp, {
    render: (job, now) => duration(jobSeconds(job, now)),
  }),
  column('Runtime', (job) => job.spec?.runtimeRef?.name ?? ''),
  column('Age', (job) => job.metadata.creationTimestamp),
];

/** The computed columns of a kind; undefined where the server's columns are used. */
export function computedColumns(group: string, resource: string): Computed[] | undefined {
  const isJob = group === 'trainer.kubeflow.org' && resource === 'trainjobs';
  return isJob ? TRAIN_JOBS : undefined;
}
