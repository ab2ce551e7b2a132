// The inbox inside a CDK app: two stages, each a stack that holds the template of a release and what is yours.
// docs/run/iac.md describes it.
import { App, Stack } from 'aws-cdk-lib';
import { CfnInclude } from 'aws-cdk-lib/cloudformation-include';
import { Asset } from 'aws-cdk-lib/aws-s3-assets';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { join } from 'node:path';

const app = new App();
// The unpacked archive of a release.
const release = app.node.tryGetContext('release') ?? 'hookonce';

class Hooks extends Stack {
  constructor(id, parameters) {
    super(app, id, { terminationProtection: true });
    // Parameters stand in the template's conditions, where CloudFormation reads no resource. So the topic has a name, of which
    // its ARN is made.
    const topicName = `${id}-alarms`;
    new Topic(this, 'Alarms', { topicName });
    const AlarmTopicArn = this.formatArn({ service: 'sns', resource: topicName });
    const inbox = new CfnInclude(this, 'Inbox', {
      templateFile: join(release, 'template.json'),
      parameters: { AlarmTopicArn, ...parameters },
    });
    for (const name of ['Webhook', 'Worker', 'Relay', 'Dispatcher']) {
      const code = new Asset(this, `${name}Code`, { path: join(release, `${name.toLowerCase()}.zip`) });
      inbox.getResource(`${name}Function`).code = { s3Bucket: code.s3BucketName, s3Key: code.s3ObjectKey };
    }
    // Your code finds the inbox's parts, such as inbox.getResource('DomainTable').
  }
}

new Hooks('hooks-prod', { RequestsPerSecondMax: '200' });
new Hooks('hooks-staging', { LogLevel: 'debug' });

app.synth();
