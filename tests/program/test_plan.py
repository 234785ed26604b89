#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`causeway plan` as a person meets it.
usage: test_plan.py PATH_OF_CAUSEWAY [unittest options]"""
import os, re, subprocess, unittest

from support import PROGRAM, Program

LINKS = """from,to,rtt_ms,mbit_s
here,here,1,10000
there,there,1,10000
here,there,80,300
"""
DEVICES = """# two machines here, two there, listed in turn
name,region,tflop_s,memory_gb,count
a,here,50,40,2
b,there,50,40,2
c,here,50,40,1
d,there,50,40,1
"""


class Plan(Program):
    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def plan(self, *args, links=LINKS, devices=DEVICES):
        return subprocess.run([PROGRAM, "plan", "--links", self.write("links.csv", links), "--devices",
                               self.write("devices.csv", devices), "--evaluations", "5000", *args],
                              capture_output=True, text=True, errors="replace", timeout=60)

    def test_a_plan_names_every_device_and_where_the_time_goes(self):
        r = self.plan("--model", "gpt2-xl", "--global-batch", "64", "--stages", "2", "--replicas", "3")
        self.assertEqual(r.returncode, 0, r.stderr)
        for device in ["a.0@here", "a.1@here", "b.0@there", "b.1@there", "c@here", "d@there"]:
            self.assertEqual(r.stdout.count(device), 1 + ("from " + device in r.stdout) + ("to " + device in r.stdout), r.stdout)
        step = float(re.search(r"predicted step ([0-9.]+) s", r.stdout).group(1))
        parts = [float(re.search(part + r"[^0-9\n]*([0-9.]+) s", r.stdout).group(1))
                 for part in ["computing", "other stages", "exposed: activations", "averaging gradients"]]
        self.assertAlmostEqual(step, sum(parts), delta=0.004)
        self.assertRegex(r.stdout, r"bound by (computing|activations|averaging|the bubble)")
        self.assertIn("square-cube law", r.stdout)
        blind = float(re.search(r"at random, mean of 200 +([0-9.]+) s", r.stdout).group(1))
        self.assertLess(step, blind)

    def test_clusters_hold_the_model_and_have_lines_alike(self):
        links = LINKS + "slow,slow,80,20\nslow,here,80,20\nslow,there,80,20\n"
        devices = "name,region,tflop_s,memory_gb,count\na,here,50,16,2\nb,slow,50,16,2\nc,here,50,16,1\n"
        args = ["--model", "gpt2-xl", "--clusters"]
        r = self.plan(*args, "2", links=links, devices=devices)
        self.assertEqual(r.returncode, 0, r.stderr)
        clusters = [line.split()[3:] for line in r.stdout.splitlines() if re.match(r"\d+ +\d+\.\d", line)]
        self.assertEqual(sorted(map(sorted, clusters)), [["a.0@here", "a.1@here", "c@here"], ["b.0@slow", "b.1@slow"]], r.stdout)
        self.assertEqual(r.stdout, self.plan(*args, "2", links=links, devices=devices).stdout)
        self.fails(self.plan(*args, "4", links=links, devices=devices), "out_of_memory", "take fewer clusters")
        self.fails(self.plan(*args, "9", links=links, devices=devices), "invalid_argument", "9 clusters")

    def test_batches_follow_the_devices_and_the_share_follows_the_links(self):
        devices = "name,region,tflop_s,memory_gb\na,here,60,80\nb,there,30,80\n"
        args = ["--model", "gpt2", "--batches"]
        shares = []
        for mbit_s in (100, 10):
            r = self.plan(*args, links=LINKS.replace("300", str(mbit_s)), devices=devices)
            self.assertEqual(r.returncode, 0, r.stderr)
            batch = {m[1]: int(m[2]) for m in re.finditer(r"(?m)^(\w)@\S+ +(\d+)", r.stdout)}
            self.assertAlmostEqual(batch["a"] / batch["b"], 2, delta=0.02, msg=r.stdout)
            shares.append(float(re.search(r"share ([0-9.]+)", r.stdout).group(1)))
        self.assertAlmostEqual(shares[0] / shares[1], 10, delta=0.5)
        self.fails(self.plan("--model", "llama-65b", "--batches", devices=devices), "out_of_memory", "a: does not hold")

    def test_paths_leave_out_every_middle_stage_equally_often(self):
        devices = DEVICES.replace(",1\n", ",2\n")
        args = ["--model", "gpt2", "--stages", "4", "--replicas", "2", "--global-batch", "32", "--skip"]
        r = self.plan(*args, "1", devices=devices)
        self.assertEqual(r.returncode, 0, r.stderr)
        paths = [way.split() for way in re.search(r"--parallel.paths '([^']+)'", r.stdout).group(1).split(";")]
        self.assertEqual(len(paths), 6)  # eight devices: two for each stage, as three stages have two thirds of the work
        for stage in range(4):
            self.assertEqual(sum(way[stage] == "-" for way in paths), 3 if stage in (1, 2) else 0, paths)
            peers = re.search(rf"^{stage}((?: +\d+=\S+)+)$", r.stdout, re.M).group(1)
            self.assertLessEqual({way[stage] for way in paths} - {"-"}, set(re.findall(r"(\d+)=", peers)))
        seconds = [float(s) for s in re.findall(r"^  on .*paths\b.* ([0-9.]+) s", r.stdout, re.M)]
        self.assertEqual(len(seconds), 2, r.stdout)
        self.assertLess(seconds[0], seconds[1])
        self.assertEqual(r.stdout, self.plan(*args, "1", devices=devices).stdout)
        self.fails(self.plan(*args, "3", devices=devices), "invalid_argument", "the first and the last always run")

    def test_the_same_seed_prints_the_same_plan(self):
        args = ["--model", "gpt2", "--global-batch", "32"]
        first, second = self.plan(*args, "--seed", "3"), self.plan(*args, "--seed", "3")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertEqual(first.stdout, second.stdout)

    def test_wrong_input_is_refused_with_the_remedy(self):
        self.fails(self.plan("--model", "gpt9"), "invalid_argument", "gpt2-xl", "llama-7b")
        self.fails(self.plan("--stages", "40"), "invalid_argument", "0 leaves a number open")
        self.fails(self.plan("--global-batch", "none"), "invalid_argument", "--global-batch")
        self.fails(self.plan("--frobnicate"), "invalid_argument", "--help")
        self.fails(self.plan("--model", "llama-65b", "--global-batch", "8"), "out_of_memory", "GB on each would do")
        self.fails(self.plan(devices="name,region\n"), "bad_text", "devices.csv, line 1")
        self.fails(self.plan(devices=DEVICES + "e,nowhere,1,1,1\n"), "not_found", "nowhere")
        self.fails(self.plan(devices=DEVICES + "e,here,fast,1,1\n"), "bad_text", "line 7", "Tflop/s")
        self.fails(self.plan(devices=DEVICES + "e,here,1,1,100000\n"), "bad_text", "at most 1024")
        self.fails(self.plan(links="from,to,rtt_ms,mbit_s\nhere,there,1,1\n"), "not_found", "no row for here,here")
        r = subprocess.run([PROGRAM, "plan", "--links", "/nowhere"], capture_output=True, text=True, errors="replace")
        self.fails(r, "not_found", "--links")

    def test_help_lists_the_options(self):
        r = subprocess.run([PROGRAM, "plan", "--help"], capture_output=True, text=True, errors="replace")
        self.assertEqual(r.returncode, 0)
        for word in ["--links", "--devices", "--model", "--global-batch", "--seed"]:
            self.assertIn(word, r.stdout)


if __name__ == "__main__":
    unittest.main()
