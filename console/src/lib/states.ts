// States in one word and one of five tones, and conditions as sentences.

import type { Condition, KubeObject } from './api';

export type Tone = 'good' | 'busy' | 'warn' | 'bad' | 'idle';

const WORDS: [RegExp, Tone][] = [
  [/crashloop|backoff|^err|error|failed|failing|restarting/i, 'bad'],
  [/evicted|oomkilled|invalid|notready$|unknown|lost/i, 'bad'],
  [/unschedulable|degraded|schedulingdisabled|paused|suspended|warning/i, 'warn'],
  [/pending|creating|waiting|starting|terminating|progress|provision|initializ|init:/i, 'busy'],
  [/^running|^ready|^active|^bound|succe|complete|available|healthy|^true$|deployed/i, 'good'],
];

/** The tone of a word such as `Running` or `CrashLoopBackOff`. */
export function toneOf(word: string): Tone {
  return WORDS.find(([pattern]) => pattern.test(word))?.[1] ?? 'idle';
}

/** Columns whose words have a tone. */
export function isStateColumn(name: string): boolean {
  return /^(status|phase|state|printable status|condition)$/i.test(name);
}

/** Conditions that are bad when they are true. */
const BAD_WHEN_TRUE =
  /fail|pressure|unavailable|degraded|stalled|disruption|error|paused|suspend|non\w*structural/i;

export function conditionTone(condition: Condition): Tone {
  const isTrue = condition.status === 'True';
  if (condition.status === 'Unknown') return 'warn';
  if (BAD_WHEN_TRUE.test(condition.type)) {
    if (!isTrue) return 'good';
    return /suspend|paused|disruption/i.test(condition.type) ? 'warn' : 'bad';
  }
  return isTrue ? 'good' : 'busy';
}

/** `MemoryPressure` becomes `memory pressure`. */
export function words(name: string): string {
  const apart = name.replace(/([a-z0-9])([A-Z])/g, '$1 $2').replace(/[-_/]/g, ' ');
  return apart.replace(/\b[A-Z][a-z]+\b/g, (word) => word.toLowerCase());
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A condition as a sentence. */
export function sentence(condition: Condition): string {
  const name = words(condition.type);
  const prefix = { True: '', False: 'not ' }[condition.status] ?? 'unknown: ';
  const plain = capital(prefix + name);
  const because = condition.message || (condition.reason ? words(condition.reason) : '');
  if (!because) return `${plain}.`;
  const end = /[.!?]$/.test(because) ? '' : '.';
  return `${plain}: ${because}${end}`;
}

export function conditions(object: KubeObject | undefined): Condition[] {
  const found = object?.status?.conditions;
  return Array.isArray(found) ? found : [];
}

export function isTrue(object: KubeObject, type: string): boolean {
  return conditions(object).some((one) => one.type === type && one.status === 'True');
}

/** A pod's state as `kubectl get pods` says it. */
export function podState(pod: KubeObject): string {
  if (pod.metadata.deletionTimestamp) return 'Terminating';
  const all = [
    ...(pod.status?.initContainerStatuses ?? []),
    ...(pod.status?.containerStatuses ?? []),
  ];
  for (const one of all) {
    const waiting = one.state?.waiting?.reason;
    if (waiting && waiting !== 'ContainerCreating' && waiting !== 'PodInitializing') return waiting;
    const ended = one.state?.terminated;
    if (ended && ended.exitCode !== 0) return ended.reason ?? 'Error';
  }
  return pod.status?.reason ?? pod.status?.phase ?? 'Unknown';
}

/** A training job's state in one word. */
export function jobState(job: KubeObject): string {
  const jobs: { ready?: number; active?: number }[] = job.status?.jobsStatus ?? [];
  if (isTrue(job, 'Complete')) return 'complete';
  if (isTrue(job, 'Failed')) return 'failed';
  if (isTrue(job, 'Suspended')) return 'suspended';
  if (jobs.some((one) => (one.ready ?? 0) > 0)) return 'running';
  return jobs.some((one) => (one.active ?? 0) > 0) ? 'starting' : 'waiting';
}

/** The condition that ended a training job. */
export function jobEnd(job: KubeObject): Condition | undefined {
  return conditions(job).find(
    (one) => ['Complete', 'Failed'].includes(one.type) && one.status === 'True',
  );
}

/** The reported progress of a training job; undefined if it reports none. */
export function jobPercent(job: KubeObject): number | undefined {
  if (isTrue(job, 'Complete')) return 100;
  const percent = job.status?.trainerStatus?.progressPercentage;
  return typeof percent === 'number' ? percent : undefined;
}

/** How long a training job has run, in seconds. */
export function jobSeconds(job: KubeObject, now: number): number {
  const end = jobEnd(job)?.lastTransitionTime;
  return ((end ? Date.parse(end) : now) - Date.parse(job.metadata.creationTimestamp)) / 1_000;
}

/** A graph's state; its own status does not say that its pods crash. */
export function graphState(graph: KubeObject, isFailing: boolean): { word: string; tone: Tone } {
  const state = graph.status?.state ?? 'pending';
  if (state === 'successful') {
    return isFailing ? { word: 'degraded', tone: 'warn' } : { word: 'serving', tone: 'good' };
  }
  if (state === 'failed') return { word: 'failed', tone: 'bad' };
  return isFailing ? { word: 'failing', tone: 'bad' } : { word: state, tone: toneOf(state) };
}
