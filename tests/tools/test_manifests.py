#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manifests for Kubernetes are what its API server takes: the schema of LeaderWorkerSet, of a release, lies in tests/golden/kubernetes.
Skipped where python3-yaml or python3-jsonschema (Debian; tools/setup.sh docs) is not installed."""
import copy, json, re, subprocess, unittest
from pathlib import Path

try:
    import jsonschema, yaml
    missing = ""
except ImportError as what:
    missing = f"{what.name} is not installed (Debian: python3-{what.name})"

ROOT = Path(__file__).resolve().parents[2]
# What the controller sets in each container of a group, and what a container has without it.
VARIABLES = {"LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX", "HOSTNAME"}


@unittest.skipIf(missing, missing)
class LeaderWorkerSet(unittest.TestCase):
    def setUp(self):
        self.manifest = yaml.safe_load((ROOT / "examples/kubernetes/leader_worker_set.yaml").read_text())
        self.schema = jsonschema.Draft202012Validator(json.loads((ROOT / "tests/golden/kubernetes/leader_worker_set.schema.json").read_text()))
        self.template = self.manifest["spec"]["leaderWorkerTemplate"]
        self.leader = self.template["leaderTemplate"]["spec"]["containers"][0]

    def errors(self, manifest):
        return [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in self.schema.iter_errors(manifest)]

    def test_it_fits_the_schema(self):
        self.assertEqual(self.errors(self.manifest), [])

    def test_mistakes_are_found(self):
        def change(act):
            other = copy.deepcopy(self.manifest)
            act(other["spec"]["leaderWorkerTemplate"], other)
            return self.errors(other)

        for mistake in [lambda t, m: m.update(kind="LeaderWorkerSets"), lambda t, m: m.update(apiVersion="leaderworkerset.x-k8s.io/v2"),
                        lambda t, m: m["spec"].update(replica=2), lambda t, m: m["spec"].update(replicas="2"), lambda t, m: t.pop("workerTemplate"),
                        lambda t, m: t.update(restartPolicy="Always"),
                        lambda t, m: t["workerTemplate"]["spec"]["containers"][0].pop("name"),
                        lambda t, m: t["leaderTemplate"]["spec"]["containers"][0].update(command="causeway"),
                        lambda t, m: t["leaderTemplate"]["spec"].update(volume=[]),
                        lambda t, m: t["leaderTemplate"]["spec"]["containers"][0]["resources"]["limits"].update(memory="16 GiB")]:
            self.assertEqual(len(change(mistake)), 1)
        self.assertEqual(change(lambda t, m: None), [])

    def test_its_script_is_one_and_uses_what_is_set(self):
        script = self.leader["args"][0]
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)
        used = set(re.findall(r"\$\{?([A-Z_]+)", script))
        self.assertEqual(used - VARIABLES - {e["name"] for e in self.leader["env"]}, set())

    def test_each_mount_has_its_volume(self):
        for template in self.template["leaderTemplate"], self.template["workerTemplate"]:
            volumes = {v["name"] for v in template["spec"].get("volumes", [])}
            for container in template["spec"]["containers"]:
                self.assertLessEqual({m["name"] for m in container.get("volumeMounts", [])}, volumes)


if __name__ == "__main__":
    unittest.main()
