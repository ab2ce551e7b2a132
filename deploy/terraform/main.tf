# The inbox inside a Terraform configuration: one CloudFormation stack from the translated template, and around it what is
# yours. docs/run/iac.md says how to make the template.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "bucket" {
  type        = string
  description = "Bucket that the template is read from, in the stack's region. The one that `sam package` wrote to will do."
}

variable "template" {
  type        = string
  default     = "hookonce.template.json"
  description = "The translated template."
}

data "aws_region" "current" {}

# The template has more than the 51,200 bytes that CloudFormation takes in a request. Its key names its content, so that
# a new template is a new address, and the stack sees that it must be updated.
resource "aws_s3_object" "template" {
  bucket = var.bucket
  key    = "hookonce/${filesha256(var.template)}.json"
  source = var.template
}

resource "aws_sns_topic" "alarms" {
  name = "hookonce-alarms"
}

resource "aws_cloudformation_stack" "inbox" {
  name         = "hookonce"
  template_url = "https://${var.bucket}.s3.${data.aws_region.current.id}.amazonaws.com/${aws_s3_object.template.key}"
  capabilities = ["CAPABILITY_IAM"]

  parameters = {
    AlarmTopicArn        = aws_sns_topic.alarms.arn
    WorkerConcurrencyMax = 10
  }

  # The tables outlive the stack, but a new stack would begin with empty ones.
  lifecycle {
    prevent_destroy = true
  }
}

output "webhook_url" {
  value = aws_cloudformation_stack.inbox.outputs["WebhookUrl"]
}

output "domain_table" {
  value = aws_cloudformation_stack.inbox.outputs["DomainTable"]
}
