"""Stands in for Terraform's provider hashicorp/aws, as far as deploy/terraform needs it, so that Terraform itself can run
without an account. S3 is the folder `s3` where Terraform runs. A stack is made when its template's address is that of an
object there; its outputs are those of the template that have no condition.

usage: terraform-provider-aws (Terraform starts it)"""

import json
import pathlib
import re

from tf.blocks import SetNestedBlock
from tf.iface import DataSource, Provider, Resource
from tf.runner import run_provider
from tf.schema import Attribute, Block, Schema
from tf.types import Bool, Map, Number, Set, String, Unknown

REGION = "eu-central-1"
ACCOUNT = "123456789012"
# Every attribute of version 6 of the provider, and of its blocks the time-outs. Names, types and what is required were compared by hand
# with the npm package @cdktf/provider-aws 21.22.1, which is generated from the provider 6.25.0 and too large for a check;
# what is computed and what replaces (!), with the provider's source.
ATTRIBUTES = {
    "aws_cloudformation_stack": {
        "required": "name!",
        "optional": "capabilities:set disable_rollback:bool! iam_role_arn notification_arns:set on_failure! policy_url tags:map template_url "
                    "timeout_in_minutes:number!",
        "optional computed": "id parameters:map policy_body region! tags_all:map template_body",
        "computed": "outputs:map",
    },
    "aws_s3_object": {
        "required": "bucket! key!",
        "optional": "cache_control checksum_algorithm content content_base64 content_disposition content_encoding content_language "
                    "force_destroy:bool metadata:map object_lock_legal_hold_status object_lock_mode object_lock_retain_until_date source "
                    "source_hash tags:map website_redirect",
        "optional computed": "acl bucket_key_enabled:bool content_type etag id kms_key_id region! server_side_encryption storage_class "
                             "tags_all:map",
        "computed": "arn checksum_crc32 checksum_crc32c checksum_crc64nvme checksum_sha1 checksum_sha256 version_id",
    },
    "aws_sns_topic": {
        "optional": "application_failure_feedback_role_arn application_success_feedback_role_arn "
                    "application_success_feedback_sample_rate:number archive_policy content_based_deduplication:bool delivery_policy "
                    "display_name fifo_topic:bool! firehose_failure_feedback_role_arn firehose_success_feedback_role_arn "
                    "firehose_success_feedback_sample_rate:number http_failure_feedback_role_arn http_success_feedback_role_arn "
                    "http_success_feedback_sample_rate:number kms_master_key_id lambda_failure_feedback_role_arn "
                    "lambda_success_feedback_role_arn lambda_success_feedback_sample_rate:number sqs_failure_feedback_role_arn "
                    "sqs_success_feedback_role_arn sqs_success_feedback_sample_rate:number tags:map",
        "optional computed": "fifo_throughput_scope id name! name_prefix! policy region! signature_version:number tags_all:map "
                             "tracing_config",
        "computed": "arn beginning_archive_time owner",
    },
    "aws_region": {"optional computed": "endpoint id name region", "computed": "description"},
}
# The provider has one such block, and not a set of them, which this library lacks.
TIMEOUTS = SetNestedBlock("timeouts", Block([Attribute(name, String(), optional=True) for name in ("create", "delete", "update")]))
TYPES = {"": String(), "bool": Bool(), "number": Number(), "set": Set(String()), "map": Map(String())}


class Named:
    """Whatever has a name and attributes in the list above."""

    def __init__(self, provider):
        pass

    @classmethod
    def get_name(cls):
        return cls.name

    @classmethod
    def get_schema(cls):
        attributes = []
        for kinds, words in ATTRIBUTES[f"aws_{cls.name}"].items():
            for word in words.split():
                name, _, type_name = word.rstrip("!").partition(":")
                attributes.append(Attribute(name, TYPES[type_name], requires_replace="!" in word, **dict.fromkeys(kinds.split(), True)))
        return Schema(attributes, version=0, block_types=[TIMEOUTS] if cls.name == "cloudformation_stack" else [])


class Made(Named, Resource):
    def create(self, ctx, planned):
        found = self.make(planned)
        if isinstance(found, str):
            ctx.diagnostics.add_error(found)
            return None
        return {name: None if value is Unknown else value for name, value in planned.items()} | {"id": planned.get("name")} | found

    def read(self, ctx, current):
        return current

    def update(self, ctx, current, planned):
        return self.create(ctx, planned)

    def delete(self, ctx, current):
        return None


class Stack(Made):
    name = "cloudformation_stack"

    def make(self, planned):
        place = re.fullmatch(rf"https://([^./]+)\.s3\.{REGION}\.amazonaws\.com/(.+)", planned["template_url"] or "")
        file = place and pathlib.Path("s3", *place.groups())
        if not file or not file.is_file():
            return f"TemplateURL must reference a valid S3 object to which you have access: {planned['template_url']}"
        outputs = json.loads(file.read_text())["Outputs"]
        return {"outputs": {name: f"{name} of {planned['name']}" for name, body in outputs.items() if "Condition" not in body}}


class Object(Made):
    name = "s3_object"

    def make(self, planned):
        file = self.file(planned)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pathlib.Path(planned["source"]).read_bytes())
        return {"id": f"{planned['bucket']}/{planned['key']}"}

    def delete(self, ctx, current):
        self.file(current).unlink()

    def file(self, state):
        return pathlib.Path("s3", state["bucket"], state["key"])


class Topic(Made):
    name = "sns_topic"

    def make(self, planned):
        arn = f"arn:aws:sns:{REGION}:{ACCOUNT}:{planned['name']}"
        return {"id": arn, "arn": arn}


class Region(Named, DataSource):
    name = "region"

    def read(self, ctx, config):
        return config | {"id": REGION, "name": REGION, "region": REGION}


class Aws(Provider):
    def full_name(self):
        return "registry.terraform.io/hashicorp/aws"

    def get_model_prefix(self):
        return "aws_"

    def get_provider_schema(self, diags):
        return Schema(version=0)

    def validate_config(self, diags, config):
        pass

    def configure_provider(self, diags, config):
        pass

    def get_data_sources(self):
        return [Region]

    def get_resources(self):
        return [Stack, Object, Topic]


if __name__ == "__main__":
    run_provider(Aws())
