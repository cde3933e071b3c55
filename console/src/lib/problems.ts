// Problems of the cluster: one for each object that fails, grouped by the workload that owns it.

import type { Json, KubeObject } from './api';
import { ownerOf, refKey, refOf, type Ref } from './owners';
import { conditions, isTrue, podState, type Tone } from './states';
import { duration } from './time';

export interface Problem {
  id: string;
  tone: Tone;
  title: string;
  detail: string;
  hint: string;
  /** The command that shows more. */
  command: string;
  target: Ref;
  /** The workload by which problems are grouped. */
  owner: Ref;
  /** Pods of the workload that fail. */
  pods: KubeObject[];
  time: string;
  /** The object has ended: its state does not change any more. */
  isFinished: boolean;
}

const HINTS: [RegExp, string][] = [
  [/crashloop|backoff restarting|restarting/i, 'The container keeps exiting. Check its log.'],
  [/imagepull|errimage|invalidimage/i, 'The image cannot be pulled. Check its name and registry.'],
  [
    /unschedulable|failedscheduling/i,
    'No node fits. Free resources, add a node or request less; Why lists the reason of each node.',
  ],
  [/oomkilled/i, 'The container exceeded its memory limit. Raise the limit or use less memory.'],
  [/createcontainer|configerror/i, 'The container cannot be created from its spec.'],
  [/failedmount|attachvolume|provision/i, 'A volume is not available. Check the claim of the pod.'],
  [/unhealthy|probe/i, 'A probe fails. Check its port and path, or allow more time to start.'],
  [/notready|nodestatus/i, 'The node does not report. Run `setpoint status` on that host.'],
  [/deadline|failed|^error$/i, 'It ended with a failure. Check the log of the pod that failed first.'],
];

export function hintFor(text: string): string {
  const found = HINTS.find(([pattern]) => pattern.test(text));
  return found?.[1] ?? 'Open it to see its conditions and events.';
}

function inNamespace(object: KubeObject): string {
  return object.metadata.namespace ? ` -n ${object.metadata.namespace}` : '';
}

function latest(object: KubeObject): string {
  const times = conditions(object).map((one) => one.lastTransitionTime ?? '');
  return times.sort().at(-1) || object.metadata.creationTimestamp;
}

/** A problem of an object that is its own workload. */
function problem(
  object: KubeObject,
  apiVersion: string,
  kind: string,
  rest: Pick<Problem, 'title' | 'detail' | 'hint' | 'command'> & Partial<Problem>,
): Problem {
  const target = refOf(object, apiVersion, kind);
  return {
    id: object.metadata.uid,
    tone: 'bad',
    target,
    owner: target,
    pods: [],
    time: latest(object),
    isFinished: false,
    ...rest,
  };
}

/** Pods may take this long to start before they count as a problem. */
const START_SECONDS = 20;
/** A container that exited this recently, and not for the first time, is failing. */
const RESTARTED_SECONDS = 60;

export function containerStatuses(pod: KubeObject): Json[] {
  return [
    ...(pod.status?.initContainerStatuses ?? []),
    ...(pod.status?.containerStatuses ?? []),
  ];
}

/** The last run of a container that failed. */
export function failedRun(pod: KubeObject): { name: string; run: Json; status: Json } | undefined {
  for (const status of containerStatuses(pod)) {
    for (const run of [status.state?.terminated, status.lastState?.terminated]) {
      if (run && run.exitCode !== 0) return { name: status.name, run, status };
    }
  }
  return undefined;
}

/** Whether a container exits again and again, although it runs at the moment. */
function isRestarting(pod: KubeObject, now: number): boolean {
  return containerStatuses(pod).some((one) => {
    const run = one.lastState?.terminated;
    if (!one.state?.running || !run || run.exitCode === 0) return false;
    const isRecent = now - Date.parse(run.finishedAt ?? '') < RESTARTED_SECONDS * 1_000;
    return !one.ready || (isRecent && one.restartCount > 1);
  });
}

/** `main exited with code 3 after 5 restarts; restarting in up to 40s`. */
export function podDetail(pod: KubeObject): string {
  const waiting = containerStatuses(pod).find((one) => one.state?.waiting?.message);
  const message: string = waiting?.state.waiting.message ?? pod.status?.message ?? '';
  const failed = failedRun(pod);
  if (!failed) return message || 'The pod does not start.';
  const { name, run, status } = failed;
  const reason = run.reason && run.reason !== 'Error' ? ` (${run.reason})` : '';
  const restarts = status.restartCount ?? 0;
  const count = restarts ? `, ${restarts} restart${restarts === 1 ? '' : 's'}` : '';
  const backOff = /back-off (\S+) restarting/.exec(message)?.[1];
  const own = message && !backOff ? `: ${message}` : '';
  return `${name} exited with code ${run.exitCode}${reason}${count}${own}${backOff ? `, back-off ${backOff}` : ''}`;
}

/** Whether a pod fails or cannot start. */
export function podFailure(pod: KubeObject, now: number): { state: string; tone: Tone } | undefined {
  const state = podState(pod);
  const scheduled = conditions(pod).find((one) => one.type === 'PodScheduled');
  if (scheduled?.status === 'False') return { state: 'Unschedulable', tone: 'warn' };
  if (/backoff|err|fail|invalid|oom|evicted/i.test(state)) return { state, tone: 'bad' };
  if (state === 'Running' && isRestarting(pod, now)) return { state: 'Restarting', tone: 'bad' };
  const isOld = now - Date.parse(pod.metadata.creationTimestamp) > START_SECONDS * 1_000;
  const isStuck = (state === 'Pending' || state === 'ContainerCreating') && isOld;
  return isStuck ? { state, tone: 'warn' } : undefined;
}

export function podProblem(
  pod: KubeObject,
  now: number,
  isTrainJob: (ref: Ref) => boolean,
): Problem | undefined {
  const failure = podFailure(pod, now);
  if (!failure) return undefined;
  const { name } = pod.metadata;
  const scheduled = conditions(pod).find((one) => one.type === 'PodScheduled');
  const owner = ownerOf(pod, isTrainJob);
  const failed = failedRun(pod);
  const isUnplaced = failure.state === 'Unschedulable';
  const isAgain = containerStatuses(pod).some((one) => one.state?.running && one.lastState?.terminated);
  const logs = `kubectl logs ${name}${inNamespace(pod)}${isAgain ? ' --previous' : ''}`;
  return problem(pod, 'v1', 'Pod', {
    tone: failure.tone,
    title: isUnplaced ? `Pod ${name} is unschedulable` : `Pod ${name}: ${failure.state}`,
    detail: isUnplaced ? (scheduled?.message ?? 'No node fits.') : podDetail(pod),
    hint: hintFor(failed?.run.reason === 'OOMKilled' ? 'OOMKilled' : failure.state),
    command: failed && !isUnplaced ? logs : `setpoint why pod/${name}${inNamespace(pod)}`,
    owner: owner ?? refOf(pod, 'v1', 'Pod'),
    pods: [pod],
    isFinished: pod.status?.phase === 'Failed',
  });
}

export function nodeProblem(node: KubeObject): Problem | undefined {
  const ready = conditions(node).find((one) => one.type === 'Ready');
  if (ready?.status === 'True') return undefined;
  const { name } = node.metadata;
  return problem(node, 'v1', 'Node', {
    title: `Node ${name} is not ready`,
    detail: ready?.message ?? 'The node has not reported yet.',
    hint: hintFor('NotReady'),
    command: `kubectl describe node ${name}`,
  });
}

/** Claims that are pending for this long are a problem. */
const STUCK_SECONDS = 60;

/** Jobs that a controller owns are reported by their owner. */
export function batchJobProblem(job: KubeObject): Problem | undefined {
  const isOwned = job.metadata.ownerReferences?.some((owner) => owner.kind !== 'CronJob');
  if (isOwned || !isTrue(job, 'Failed')) return undefined;
  const failed = conditions(job).find((one) => one.type === 'Failed');
  const { name } = job.metadata;
  return problem(job, 'batch/v1', 'Job', {
    title: `Job ${name} failed`,
    detail: failed?.message ?? 'The job failed.',
    hint: hintFor('failed'),
    command: `kubectl logs job/${name}${inNamespace(job)}`,
    isFinished: true,
  });
}

export function deploymentProblem(set: KubeObject): Problem | undefined {
  const found = (type: string, status: string) =>
    conditions(set).find((one) => one.type === type && one.status === status);
  const condition = found('ReplicaFailure', 'True') ?? found('Progressing', 'False');
  if (!condition) return undefined;
  const { name } = set.metadata;
  return problem(set, 'apps/v1', 'Deployment', {
    title: `Deployment ${name} is not progressing`,
    detail: condition.message ?? condition.reason ?? 'Its pods do not become ready.',
    hint: 'One of its newest pods is not created, not scheduled or not ready.',
    command: `setpoint why deployment/${name}${inNamespace(set)}`,
    owner: ownerOf(set, () => false) ?? refOf(set, 'apps/v1', 'Deployment'),
  });
}

/** `waiting` are the classes that bind claims when a pod needs them: that is not a problem. */
export function claimProblem(
  claim: KubeObject,
  waiting: Set<string>,
  now: number,
): Problem | undefined {
  const { name, creationTimestamp } = claim.metadata;
  const phase = claim.status?.phase ?? 'Pending';
  const isOld = now - Date.parse(creationTimestamp) > STUCK_SECONDS * 1_000;
  const isStuck = phase === 'Pending' && isOld && !waiting.has(claim.spec?.storageClassName);
  if (phase !== 'Lost' && !isStuck) return undefined;
  const of = claim.spec?.storageClassName;
  return problem(claim, 'v1', 'PersistentVolumeClaim', {
    tone: phase === 'Lost' ? 'bad' : 'warn',
    title: `Claim ${name}: ${phase}`,
    detail: of ? `No volume of class ${of} is bound.` : 'No volume is bound.',
    hint: 'Check its events: the class may wait for a pod, or have no provisioner.',
    command: `setpoint events pvc/${name}${inNamespace(claim)}`,
    time: creationTimestamp,
  });
}

export function jobProblem(job: KubeObject): Problem | undefined {
  if (!isTrue(job, 'Failed')) return undefined;
  const failed = conditions(job).find((one) => one.type === 'Failed');
  const { name } = job.metadata;
  return problem(job, 'trainer.kubeflow.org/v1alpha1', 'TrainJob', {
    title: `Training job ${name} failed`,
    detail: failed?.message ?? 'The job failed.',
    hint: 'Its page shows the rank that failed first and its last log lines.',
    command: `setpoint train show ${name}${inNamespace(job)}`,
    isFinished: true,
  });
}

export function graphProblem(graph: KubeObject): Problem | undefined {
  if (graph.status?.state !== 'failed') return undefined;
  const condition = conditions(graph).find((one) => one.status === 'False' && one.message);
  const { name } = graph.metadata;
  return problem(graph, 'nvidia.com/v1beta1', 'DynamoGraphDeployment', {
    title: `Graph ${name} failed`,
    detail: condition?.message ?? 'The graph does not serve.',
    hint: 'Its page shows the component that is not ready.',
    command: `setpoint serve show ${name}${inNamespace(graph)}`,
  });
}

export function machineProblem(machine: KubeObject): Problem | undefined {
  const phase = machine.status?.phase ?? machine.status?.printableStatus ?? '';
  if (!/error|fail|crash|unschedulable/i.test(phase)) return undefined;
  const condition = conditions(machine).find((one) => one.status === 'False' && one.message);
  const { name } = machine.metadata;
  return problem(machine, 'kubevirt.io/v1', 'VirtualMachine', {
    title: `Machine ${name}: ${phase}`,
    detail: condition?.message ?? 'The machine does not run.',
    hint: 'Check its volumes and the node it was scheduled to.',
    command: `setpoint vm ls${inNamespace(machine)}`,
  });
}

const NAMES: Record<string, [string, string]> = {
  DynamoGraphDeployment: ['Graph', 'setpoint serve show'],
  TrainJob: ['Training job', 'setpoint train show'],
};
const WEIGHTS: Record<Tone, number> = { bad: 0, warn: 1, busy: 2, idle: 3, good: 4 };

/** A row for members of a workload that reports no problem itself. */
function ofOwner(first: Problem): Problem {
  const { kind, name, namespace } = first.owner;
  const [word, show] = NAMES[kind] ?? [kind, `setpoint why ${kind.toLowerCase()}/`];
  const place = namespace ? ` -n ${namespace}` : '';
  const space = show.endsWith('/') ? '' : ' ';
  const isFailing = first.tone === 'bad';
  const title = `${word} ${name} ${isFailing ? 'is failing' : 'is waiting'}`;
  const command = `${show}${space}${name}${place}`;
  return { ...first, id: refKey(first.owner), title, target: first.owner, command };
}

/** Whether the problem is that of the workload itself, and not of one of its members. */
const isOfOwner = (one: Problem) => refKey(one.target) === refKey(one.owner);

/** One problem for each workload, worst first and then newest first. */
export function grouped(all: Problem[]): Problem[] {
  const groups = new Map<string, Problem[]>();
  for (const one of all) {
    const key = refKey(one.owner);
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  const rows = [...groups.values()].map((members): Problem => {
    const sorted = [...members].sort(worstFirst);
    const unique = new Map(
      sorted.flatMap((one) => one.pods).map((pod) => [pod.metadata.uid, pod]),
    );
    const pods = [...unique.values()];
    const head = sorted.find(isOfOwner);
    if (head) return { ...head, pods };
    // A pod says more than the workload between it and its owner.
    const first = sorted.find((one) => one.pods.length) ?? (sorted[0] as Problem);
    return { ...ofOwner(first), pods };
  });
  return rows.sort(worstFirst);
}

function worstFirst(one: Problem, other: Problem): number {
  return WEIGHTS[one.tone] - WEIGHTS[other.tone] || (one.time < other.time ? 1 : -1);
}

/** Finished failures older than this are not shown. */
const FORGOTTEN_SECONDS = 24 * 3_600;
/** Problems older than this come after the running work. */
const OLD_SECONDS = 3_600;

export function byAge(all: Problem[], now: number): { recent: Problem[]; older: Problem[] } {
  const age = ({ time }: Problem) => (now - Date.parse(time)) / 1_000;
  const kept = all.filter((one) => !one.isFinished || age(one) < FORGOTTEN_SECONDS);
  return {
    recent: kept.filter((one) => age(one) < OLD_SECONDS),
    older: kept.filter((one) => age(one) >= OLD_SECONDS),
  };
}

export function ageOf({ time }: Problem, now: number): string {
  return duration((now - Date.parse(time)) / 1_000);
}
