// What an empty page says: what would be here, and how it comes about.

interface Lesson {
  title: string;
  text: string;
  command: string;
}

const LESSONS: Record<string, Lesson> = {
  TrainJob: {
    title: 'Nothing trains yet',
    text: 'A training job runs a script on as many nodes as you say, and the ranks find each other.',
    command: 'setpoint train train.py --nodes 2 --watch',
  },
  DynamoGraphDeployment: {
    title: 'Nothing serves yet',
    text: 'A graph is a frontend and the workers behind it. It answers in the manner of OpenAI.',
    command: 'setpoint serve ./model --engine mocker --watch',
  },
  VirtualMachine: {
    title: 'There are no machines yet',
    text: 'A machine boots from an image, has disks of its own, and outlives this program.',
    command: 'setpoint vm create web --image https://example.com/cloud.qcow2',
  },
  Pod: {
    title: 'No pods',
    text: 'A pod is a program that runs on a node. Most are made by something larger.',
    command: 'kubectl create deployment hello --image=busybox -- sleep 1d',
  },
  Deployment: {
    title: 'No deployments',
    text: 'A deployment keeps so many equal pods running, and changes them one after the other.',
    command: 'kubectl create deployment hello --image=busybox -- sleep 1d',
  },
  Node: {
    title: 'No nodes',
    text: 'Without a node nothing runs. Nodes for trying things out cost nothing.',
    command: 'setpoint up --runtime auto',
  },
};

export function teach(kind: string): Lesson {
  const usual: Lesson = {
    title: `No ${kind} here`,
    text: 'As soon as somebody makes one it appears here by itself.',
    command: 'kubectl apply -f FILE',
  };
  return LESSONS[kind] ?? usual;
}
