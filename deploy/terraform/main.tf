# The inbox inside a Terraform configuration: one CloudFormation stack from the template of a release, and around it what is
# yours. Each workspace is a stage. docs/run/iac.md describes it.

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
  description = "Bucket that the template is read from, in the stack's region: the one that `aws cloudformation package` wrote to."
}

variable "release" {
  type        = string
  default     = "hookonce"
  description = "The unpacked archive of a release, with packaged.json in it."
}

variable "parameters" {
  type        = map(string)
  description = "All parameters of the stage that are not the template's defaults. One that is left out goes back to its default."
}

locals {
  name     = "hooks-${terraform.workspace}"
  template = "${var.release}/packaged.json"
}

data "aws_region" "current" {}

# The template has more than the 51,200 bytes that CloudFormation takes in a request. Its key names its content, so that
# a new template is a new address, and the stack sees that it must be updated.
resource "aws_s3_object" "template" {
  bucket = var.bucket
  key    = "${local.name}/${filesha256(local.template)}.json"
  source = local.template
}

resource "aws_sns_topic" "alarms" {
  name = "${local.name}-alarms"
}

resource "aws_cloudformation_stack" "inbox" {
  name         = local.name
  template_url = "https://${var.bucket}.s3.${data.aws_region.current.id}.amazonaws.com/${aws_s3_object.template.key}"
  policy_body  = file("${var.release}/stack-policy.json")
  capabilities = ["CAPABILITY_IAM"]
  parameters   = merge({ AlarmTopicArn = aws_sns_topic.alarms.arn }, var.parameters)

  # Terraform stops to wait after half an hour otherwise, and CloudFormation goes on without it.
  timeouts {
    create = "1h"
    update = "1h"
    delete = "1h"
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
