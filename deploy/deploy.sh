#!/usr/bin/env bash
# usage: ./deploy.sh [--stack NAME] [PARAMETER=VALUE...]
#
# Deploys the release in this folder to the account and the region of your AWS command line. Run it again to update the
# stack, or to change parameters: those that you do not name keep their values. It needs the AWS command line, and
# `hookonce` of the same release on the PATH.
set -euo pipefail
cd "$(dirname "$0")"

stack=hookonce
case ${1:-} in
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit ;;
    --stack) stack=${2:?a name}; shift 2 ;;
esac
for tool in aws hookonce; do
    command -v "$tool" >/dev/null || { echo "error: $tool is not on the PATH" >&2; exit 2; }
done

echo "1. The files are those of the release"
if command -v sha256sum >/dev/null; then sha256sum --check --quiet SHA256SUMS; else shasum -a 256 --check --quiet SHA256SUMS; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# How far an upload is, is shown only if it fails.
quietly() {
    "$@" 2>"$work/log" || { cat "$work/log" >&2; return 1; }
}
deploy() {
    quietly aws cloudformation deploy --no-fail-on-empty-changeset "$@"
}

echo "2. The code goes into a bucket of its own, which the stack $stack-code holds"
deploy --stack-name "$stack-code" --template-file bucket.yaml
bucket=$(aws cloudformation describe-stacks --stack-name "$stack-code" --output text \
    --query "Stacks[0].Outputs[?OutputKey=='Bucket'].OutputValue")
quietly aws cloudformation package --template-file template.json --use-json --output-template-file "$work/packaged.json" \
    --s3-bucket "$bucket" >/dev/null

echo "3. CloudFormation makes the stack $stack, which takes some minutes"
parameters=()
[ $# -eq 0 ] || parameters=(--parameter-overrides "$@")
deploy --stack-name "$stack" --template-file "$work/packaged.json" --s3-bucket "$bucket" --capabilities CAPABILITY_IAM \
    ${parameters[@]+"${parameters[@]}"}

echo "4. The stack cannot be deleted, and no update can replace its tables, its queues or its address"
aws cloudformation update-termination-protection --stack-name "$stack" --enable-termination-protection >/dev/null
aws cloudformation set-stack-policy --stack-name "$stack" --stack-policy-body file://stack-policy.json

echo "5. What it still needs"
hookonce doctor --stack "$stack" || echo "The stack is there. The last lines above say what it needs."
