#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes leader_worker_set.schema.json from the CustomResourceDefinition of LeaderWorkerSet: as a JSON Schema that also refuses
unknown fields, as `kubectl --validate=strict` does; without descriptions, defaults and hints for the server; with what occurs more than
once written once. Not kept: rules that the API server checks by code.

    git clone --branch v0.9.0 https://github.com/kubernetes-sigs/lws
    tests/golden/kubernetes/make_schema.py v0.9.0 lws/config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml
"""
import collections, json, os, sys

import yaml

KEPT = ["type", "required", "enum", "anyOf", "pattern", "minimum", "maximum", "minLength", "maxLength"]
IGNORED = ["description", "default", "format", "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-list-map-keys",
           "x-kubernetes-int-or-string"]
WORTH_A_NAME = 300  # characters


def strict(schema):
    unknown = set(schema) - set(KEPT) - set(IGNORED) - {"properties", "items", "additionalProperties"}
    if unknown:
        sys.exit(f"error: the definition uses {sorted(unknown)}, of which this script does not know what it means")
    made = {key: schema[key] for key in KEPT if key in schema}
    if "items" in schema:
        made["items"] = strict(schema["items"])
    if "additionalProperties" in schema:
        made["additionalProperties"] = strict(schema["additionalProperties"])
    if "properties" in schema:
        made["properties"] = {name: strict(of) for name, of in schema["properties"].items()}
        made.setdefault("additionalProperties", False)
    return made


def with_names(schema):
    """What occurs more than once moves to $defs, the largest first."""
    def text(node):
        return json.dumps(node, sort_keys=True)

    count = collections.Counter()

    def see(node):
        if isinstance(node, dict):
            key = text(node)
            count[key] += 1
            if count[key] > 1 and len(key) >= WORTH_A_NAME:
                return  # what is in it is counted once
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else []:
            see(child)

    see(schema)
    names = {}
    for key, times in count.items():
        if times > 1 and len(key) >= WORTH_A_NAME and json.loads(key).get("type") in ("object", "array"):
            names[key] = f"part{len(names) + 1}"

    def write(node, whole=False):
        if isinstance(node, list):
            return [write(child) for child in node]
        if not isinstance(node, dict):
            return node
        if not whole and text(node) in names:
            return {"$ref": "#/$defs/" + names[text(node)]}
        return {key: write(child) for key, child in node.items()}

    return {**write(schema), "$defs": {name: write(json.loads(key), True) for key, name in names.items()}}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[2]) as f:
        definition = yaml.safe_load(f)["spec"]
    versions = [v for v in definition["versions"] if v["name"] == "v1" and v["served"]]
    schema = strict(versions[0]["schema"]["openAPIV3Schema"])
    schema["properties"]["apiVersion"]["enum"] = [definition["group"] + "/v1"]
    schema["properties"]["kind"]["enum"] = [definition["names"]["kind"]]
    schema["required"] = ["apiVersion", "kind", "metadata", "spec"]
    comment = (f"Made by make_schema.py from the definition in kubernetes-sigs/lws {sys.argv[1]}, Copyright The Kubernetes Authors, "
               "SPDX-License-Identifier: Apache-2.0; changed as the script says.")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$comment": comment}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "leader_worker_set.schema.json"), "w") as f:
        json.dump({**head, **with_names(schema)}, f, indent=1, sort_keys=False)
        f.write("\n")


if __name__ == "__main__":
    main()
