// The inbox inside a CDK app: a nested stack that holds the translated template, and around it what is yours.
// docs/run/iac.md says how to make the template.
import { App, CfnOutput, NestedStack, Stack } from 'aws-cdk-lib';
import { CfnInclude } from 'aws-cdk-lib/cloudformation-include';
import { Topic } from 'aws-cdk-lib/aws-sns';

class Inbox extends NestedStack {
  constructor(scope, id, { templateFile, parameters }) {
    super(scope, id, { parameters });
    this.template = new CfnInclude(this, 'Template', { templateFile });
  }
}

const app = new App();
const stack = new Stack(app, 'Hooks');
const alarms = new Topic(stack, 'Alarms');

// The values are the nested stack's parameters. Passed to CfnInclude instead, a value that CloudFormation finds out
// itself, such as this ARN, would stand in the template's conditions, where CloudFormation refuses it.
const inbox = new Inbox(stack, 'Inbox', {
  templateFile: app.node.tryGetContext('template') ?? 'hookonce.template.json',
  parameters: {
    AlarmTopicArn: alarms.topicArn,
    WorkerConcurrencyMax: '10',
  },
});

// The names of queues begin with that of the nested stack, and have 80 characters at most. CDK's own id for it has 48.
inbox.nestedStackResource.overrideLogicalId('Inbox');

// `hookonce --stack` wants this name. The nested stack's output WebhookUrl is the address that providers call.
new CfnOutput(stack, 'InboxStack', { value: inbox.stackName });
new CfnOutput(stack, 'DomainTable', { value: inbox.template.getResource('DomainTable').ref });

app.synth();
