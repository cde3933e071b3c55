// The workload that a pod belongs to, read from its labels and owner references alone.

import type { KubeObject } from './api';

/** A reference to an object. */
export interface Ref {
  apiVersion: string;
  kind: string;
  namespace: string;
  name: string;
}

export const GRAPH_LABEL = 'nvidia.com/dynamo-graph-deployment-name';
export const COMPONENT_LABEL = 'nvidia.com/dynamo-component';
export const JOB_SET_LABEL = 'jobset.sigs.k8s.io/jobset-name';
const TEMPLATE_HASH = 'pod-template-hash';

/** Unique in the cluster; versions do not matter. */
export function refKey({ apiVersion, kind, namespace, name }: Ref): string {
  const group = apiVersion.includes('/') ? apiVersion.split('/')[0] : '';
  return `${group}/${kind}/${namespace}/${name}`;
}

export function refOf(object: KubeObject, apiVersion: string, kind: string): Ref {
  const { namespace = '', name } = object.metadata;
  return { apiVersion, kind, namespace, name };
}

/** The training job, graph, deployment or other owner of a pod. */
export function ownerOf(pod: KubeObject, isTrainJob: (ref: Ref) => boolean): Ref | undefined {
  const { labels = {}, namespace = '', ownerReferences = [] } = pod.metadata;
  const graph = labels[GRAPH_LABEL];
  if (graph) {
    return { apiVersion: 'nvidia.com/v1beta1', kind: 'DynamoGraphDeployment', namespace, name: graph };
  }
  const set = labels[JOB_SET_LABEL];
  if (set) {
    const job = { apiVersion: 'trainer.kubeflow.org/v1alpha1', kind: 'TrainJob', namespace, name: set };
    if (isTrainJob(job)) return job;
    return { apiVersion: 'jobset.x-k8s.io/v1alpha2', kind: 'JobSet', namespace, name: set };
  }
  const [owner] = ownerReferences;
  if (!owner) return undefined;
  const { apiVersion, kind, name } = owner;
  const suffix = `-${labels[TEMPLATE_HASH]}`;
  if (kind === 'ReplicaSet' && name.endsWith(suffix)) {
    return { apiVersion, kind: 'Deployment', namespace, name: name.slice(0, -suffix.length) };
  }
  return { apiVersion, kind, namespace, name };
}
