// Texts of empty pages: what the kind is for, and the command that creates one.

interface Lesson {
  title: string;
  text: string;
  command: string;
}

const LESSONS: Record<string, Lesson> = {
  TrainJob: {
    title: 'No training jobs',
    text: 'A training job runs a script on one or more nodes and connects its ranks.',
    command: 'setpoint train train.py --nodes 2 --watch',
  },
  DynamoGraphDeployment: {
    title: 'No inference graphs',
    text: 'A graph is a frontend with its workers. It serves the OpenAI API.',
    command: 'setpoint serve ./model --engine mocker --watch',
  },
  VirtualMachine: {
    title: 'No virtual machines',
    text: 'A virtual machine boots from an image and has its own disks.',
    command: 'setpoint vm create web --image https://example.com/cloud.qcow2',
  },
  Pod: {
    title: 'No pods',
    text: 'A pod runs containers on a node. Most pods are created by a workload.',
    command: 'kubectl create deployment hello --image=busybox -- sleep 1d',
  },
  Deployment: {
    title: 'No deployments',
    text: 'A deployment keeps a number of equal pods running and replaces them one by one.',
    command: 'kubectl create deployment hello --image=busybox -- sleep 1d',
  },
  Node: {
    title: 'No nodes',
    text: 'Pods need a node to run on.',
    command: 'setpoint up --runtime auto',
  },
};

export function teach(kind: string): Lesson {
  const usual: Lesson = {
    title: `No ${kind} objects`,
    text: 'New objects appear here as they are created.',
    command: 'kubectl apply -f FILE',
  };
  return LESSONS[kind] ?? usual;
}
