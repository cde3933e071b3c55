// What is wrong, worst first, and what to do about it.

import type { KubeObject } from './api';
import { conditions, isTrue, podState, type Tone } from './states';

export interface Problem {
  id: string;
  tone: Tone;
  title: string;
  /** In the words of whoever noticed. */
  detail: string;
  hint: string;
  /** What one would type to look closer. */
  command: string;
  object: KubeObject;
  time: string;
}

interface Hint {
  pattern: RegExp;
  hint: string;
}

const HINTS: Hint[] = [
  {
    pattern: /crashloop|backoff restarting/i,
    hint: 'The program ends again and again. Its last lines say why.',
  },
  {
    pattern: /imagepull|errimage|invalidimage/i,
    hint: 'The image cannot be had. Check its name, and whether this machine may fetch it.',
  },
  {
    pattern: /unschedulable|failedscheduling/i,
    hint: 'No node has room or fits. Free some, add a node, or ask for less; Why says what each node lacks.',
  },
  {
    pattern: /oomkilled/i,
    hint: 'It used more memory than its limit. Raise the limit or make it use less.',
  },
  {
    pattern: /createcontainer|configerror/i,
    hint: 'Something that the pod refers to is missing: a ConfigMap, a Secret or a key of one.',
  },
  {
    pattern: /failedmount|attachvolume|provision/i,
    hint: 'A volume is not there yet. Look at the claim that the pod names.',
  },
  {
    pattern: /unhealthy|probe/i,
    hint: 'It runs and does not answer its probe. Check the port and the path, or give it longer to start.',
  },
  {
    pattern: /notready|nodestatus/i,
    hint: 'The node does not report. Check that its agent runs: `setpoint status` on that machine.',
  },
  {
    pattern: /deadline|failed|^error$/i,
    hint: 'It ended with a failure. The pod that failed first says why.',
  },
];

export function hintFor(text: string): string {
  const found = HINTS.find((one) => one.pattern.test(text));
  return found?.hint ?? 'Open it to see its conditions and events.';
}

function place(object: KubeObject): string {
  return object.metadata.namespace ? ` -n ${object.metadata.namespace}` : '';
}

function latest(object: KubeObject): string {
  const times = conditions(object).map((one) => one.lastTransitionTime ?? '');
  return times.sort().at(-1) || object.metadata.creationTimestamp;
}

/** Pods have a moment to start before they are a problem. */
const START_SECONDS = 20;

export function podProblem(pod: KubeObject, now: number): Problem | undefined {
  const state = podState(pod);
  const { name, uid, creationTimestamp } = pod.metadata;
  const scheduled = conditions(pod).find((one) => one.type === 'PodScheduled');
  const base = { id: uid, object: pod, time: latest(pod) };
  if (scheduled?.status === 'False') {
    const detail = scheduled.message ?? 'It has no node.';
    const command = `setpoint why pod/${name}${place(pod)}`;
    const title = `Pod ${name} waits for a node`;
    return { ...base, tone: 'warn', title, detail, hint: hintFor('unschedulable'), command };
  }
  const statuses = [
    ...(pod.status?.initContainerStatuses ?? []),
    ...(pod.status?.containerStatuses ?? []),
  ];
  const waiting = statuses.find((one) => one.state?.waiting?.message || one.lastState?.terminated);
  const ended = statuses.map((one) => one.state?.terminated ?? one.lastState?.terminated);
  const exit = ended.find((one) => one && one.exitCode !== 0);
  const isBad = /backoff|err|fail|invalid|oom|evicted/i.test(state);
  const isOld = now - Date.parse(creationTimestamp) > START_SECONDS * 1_000;
  const isStuck = state === 'Pending' && isOld;
  if (!isBad && !isStuck) return undefined;
  const said = waiting?.state?.waiting?.message ?? pod.status?.message ?? '';
  const code = exit ? `The last run ended with exit code ${exit.exitCode}.` : '';
  const sentences = [said, code].filter(Boolean).map((one) => one.replace(/[^.!?]$/, '$&.'));
  const detail = sentences.join(' ') || 'It does not start.';
  const isAgain = statuses.some((one) => one.lastState?.terminated);
  const command = exit
    ? `kubectl logs ${name}${place(pod)}${isAgain ? ' --previous' : ''}`
    : `kubectl describe pod ${name}${place(pod)}`;
  const hint = hintFor(exit?.reason === 'OOMKilled' ? 'OOMKilled' : state);
  return { ...base, tone: 'bad', title: `Pod ${name}: ${state}`, detail, hint, command };
}

export function nodeProblem(node: KubeObject): Problem | undefined {
  const ready = conditions(node).find((one) => one.type === 'Ready');
  if (ready?.status === 'True') return undefined;
  const { name, uid } = node.metadata;
  return {
    id: uid,
    tone: 'bad',
    title: `Node ${name} is not ready`,
    detail: ready?.message ?? 'It has not reported yet.',
    hint: hintFor('NotReady'),
    command: `kubectl describe node ${name}`,
    object: node,
    time: latest(node),
  };
}

/** What is stuck for this long is a problem. */
const STUCK_SECONDS = 60;

/** A Job that is somebody's own; those of sets are told of by whoever made them. */
export function batchJobProblem(job: KubeObject): Problem | undefined {
  const isMade = job.metadata.ownerReferences?.some((owner) => owner.kind !== 'CronJob');
  if (isMade || !isTrue(job, 'Failed')) return undefined;
  const failed = conditions(job).find((one) => one.type === 'Failed');
  const { name, uid } = job.metadata;
  return {
    id: uid,
    tone: 'bad',
    title: `Job ${name} failed`,
    detail: failed?.message ?? 'It failed.',
    hint: hintFor('failed'),
    command: `kubectl logs job/${name}${place(job)}`,
    object: job,
    time: latest(job),
  };
}

export function deploymentProblem(set: KubeObject): Problem | undefined {
  const isBad = (type: string, status: string) =>
    conditions(set).find((one) => one.type === type && one.status === status);
  const said = isBad('ReplicaFailure', 'True') ?? isBad('Progressing', 'False');
  if (!said) return undefined;
  const { name, uid } = set.metadata;
  return {
    id: uid,
    tone: 'bad',
    title: `Deployment ${name} does not get on`,
    detail: said.message ?? said.reason ?? 'Its pods do not become ready.',
    hint: 'Its newest pods say why: one of them is not made, not placed or not ready.',
    command: `setpoint why deployment/${name}${place(set)}`,
    object: set,
    time: latest(set),
  };
}

/** `waiting` are the classes whose claims are bound when a pod needs them: that is no problem. */
export function claimProblem(
  claim: KubeObject,
  waiting: Set<string>,
  now: number,
): Problem | undefined {
  const { name, uid, creationTimestamp } = claim.metadata;
  const phase = claim.status?.phase ?? 'Pending';
  const isOld = now - Date.parse(creationTimestamp) > STUCK_SECONDS * 1_000;
  const isStuck = phase === 'Pending' && isOld && !waiting.has(claim.spec?.storageClassName);
  if (phase !== 'Lost' && !isStuck) return undefined;
  const of = claim.spec?.storageClassName;
  return {
    id: uid,
    tone: phase === 'Lost' ? 'bad' : 'warn',
    title: `Claim ${name}: ${phase}`,
    detail: of ? `No volume of the class ${of} is bound to it.` : 'No volume is bound to it.',
    hint: 'Its events say what the class waits for, or that nobody makes volumes of it.',
    command: `setpoint events pvc/${name}${place(claim)}`,
    object: claim,
    time: creationTimestamp,
  };
}

export function jobProblem(job: KubeObject): Problem | undefined {
  if (!isTrue(job, 'Failed')) return undefined;
  const failed = conditions(job).find((one) => one.type === 'Failed');
  const { name, uid } = job.metadata;
  return {
    id: uid,
    tone: 'bad',
    title: `Training job ${name} failed`,
    detail: failed?.message ?? 'It failed.',
    hint: 'The rank that failed first, and its last lines, are on the page of the job.',
    command: `setpoint train show ${name}${place(job)}`,
    object: job,
    time: latest(job),
  };
}

export function graphProblem(graph: KubeObject): Problem | undefined {
  if (graph.status?.state !== 'failed') return undefined;
  const said = conditions(graph).find((one) => one.status === 'False' && one.message);
  const { name, uid } = graph.metadata;
  return {
    id: uid,
    tone: 'bad',
    title: `Graph ${name} failed`,
    detail: said?.message ?? 'It does not serve.',
    hint: 'Its page shows which component is not ready.',
    command: `setpoint serve show ${name}${place(graph)}`,
    object: graph,
    time: latest(graph),
  };
}

export function machineProblem(machine: KubeObject): Problem | undefined {
  const phase = machine.status?.phase ?? machine.status?.printableStatus ?? '';
  if (!/error|fail|crash|unschedulable/i.test(phase)) return undefined;
  const said = conditions(machine).find((one) => one.status === 'False' && one.message);
  const { name, uid } = machine.metadata;
  return {
    id: uid,
    tone: 'bad',
    title: `Machine ${name}: ${phase}`,
    detail: said?.message ?? 'It does not run.',
    hint: 'Look at its volumes and at the node that was to run it.',
    command: `setpoint vm ls${place(machine)}`,
    object: machine,
    time: latest(machine),
  };
}
