// How things are, in one word and one of five tones, and conditions as sentences.

import type { Condition, KubeObject } from './api';

export type Tone = 'good' | 'busy' | 'warn' | 'bad' | 'idle';

const WORDS: [RegExp, Tone][] = [
  [/crashloop|backoff|^err|error|failed|evicted|oomkilled|invalid|notready$|unknown|lost/i, 'bad'],
  [/unschedulable|degraded|schedulingdisabled|paused|suspended|held|warning/i, 'warn'],
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

/** A condition as one would say it. */
export function sentence(condition: Condition): string {
  const name = words(condition.type);
  const said =
    condition.status === 'True'
      ? `It is true that: ${name}`
      : condition.status === 'False'
        ? `Not ${name}`
        : `It is not known whether: ${name}`;
  const plain = condition.status === 'True' ? capital(name) : capital(said);
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

/** A training job's state in one word, as `setpoint train ls` says it. */
export function jobState(job: KubeObject): string {
  const jobs: { ready?: number; active?: number }[] = job.status?.jobsStatus ?? [];
  if (isTrue(job, 'Complete')) return 'complete';
  if (isTrue(job, 'Failed')) return 'failed';
  if (isTrue(job, 'Suspended')) return 'held';
  if (jobs.some((one) => (one.ready ?? 0) > 0)) return 'running';
  return jobs.some((one) => (one.active ?? 0) > 0) ? 'starting' : 'waiting';
}
