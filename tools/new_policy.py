#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the skeleton of a policy: one header, one test, one page. They compile and pass as they are.

usage: new_policy.py comm|parallel|fault NAME

NAME is in snake_case and becomes the policy's type. Nothing that exists is overwritten.
"""

import re
import sys
from string import Template

import source_tree as tree

# What differs between the kinds. A skeleton does nothing, correctly; the comments say what goes where.
KINDS = {
    "comm": {
        "concept": "CommunicationPolicy",
        "traits": "comm_traits",
        "traits_value": "{}",
        "includes": "#include <causeway/policy/concepts.hpp>",
        "std_includes": "#include <cstdint>\n#include <string_view>",
        "hooks": """\
  /// Once, before the first step; parameters are equal on all peers.
  result<void> start(auto&) { return {}; }
  /// Gradients are ready.
  result<void> before_inner_step(auto&) { return {}; }
  /// Parameters have moved. After an exchange that all peers took part in: ctx.commit_round().
  result<void> after_inner_step(auto& ctx) {
    if ((ctx.step() + 1) % options_.every == 0) ctx.commit_round();
    return {};
  }
  /// Once, after the last step: bring the replicas together.
  result<void> finish(auto&) { return {}; }
""",
        "test_includes": '#include "support/conformance.hpp"',
        "test": """\
TEST_CASE("$words: passes the conformance suite", "[comm][fast]") {
  support::check_communication_policy([] { return comm::$name{{.every = 3}}; });
}
""",
        "when": "when peers talk, what they send, and what they make of what they hear",
    },
    "parallel": {
        "concept": "ParallelismPolicy",
        "traits": "parallel_traits",
        "traits_value": "{}",
        "includes": "#include <causeway/policy/concepts.hpp>\n#include <causeway/tensor/batch.hpp>",
        "std_includes": "#include <cstdint>\n#include <string_view>",
        "hooks": """\
  /// Once, before the first step.
  result<void> start(auto&) { return {}; }
  /// Adds the gradient of the mean loss over the batch; gives that mean.
  result<double> forward_backward(auto& ctx, const batch& b) {
    const float scale = 1.0F / static_cast<float>(b.tokens());
    CAUSEWAY_ASSIGN(const double sum, ctx.forward_backward(b, scale));
    return sum / static_cast<double>(b.tokens());
  }
  /// The gradient is exchanged: its norm over the whole model.
  result<float> norm(auto& ctx) { return ctx.own_norm(); }
  /// Parameters have moved, and what was due is exchanged.
  result<void> after_step(auto&) { return {}; }
  /// The mean loss over the batch, without gradients.
  result<double> evaluate(auto& ctx, const batch& b) {
    CAUSEWAY_ASSIGN(const double sum, ctx.model().evaluate(b.inputs, b.targets, b.sequences));
    return sum / static_cast<double>(b.tokens());
  }
""",
        "test_includes": '#include "support/conformance.hpp"',
        "test": """\
TEST_CASE("$words: passes the conformance suite", "[parallel][fast]") {
  support::check_parallelism_policy([] { return parallel::$name{}; });
}
""",
        "when": "how one batch becomes gradients",
    },
    "fault": {
        "concept": "FaultPolicy",
        "traits": "fault_traits",
        "traits_value": "{}",
        "includes": "#include <causeway/policy/concepts.hpp>",
        "std_includes": "#include <cstdint>\n#include <string_view>",
        "hooks": """\
  /// Agree on who takes part.
  result<void> begin_step(auto&) { return {}; }
  /// Judge the attempt; called after a failed phase or a whole step.
  result<verdict> end_step(auto&, const result<void>& outcome) { return outcome ? verdict::commit : verdict::abort; }
""",
        "test_includes": '#include "support/conformance.hpp"',
        "test": """\
TEST_CASE("$words: passes the conformance suite", "[fault][fast]") {
  support::check_fault_policy([] { return fault::$name{}; });
}
""",
        "when": "what a step is worth when somebody is slow, gone or lying",
    },
}

HEADER = """\
// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_${FOLDER}_${NAME}_HPP
#define CAUSEWAY_${FOLDER}_${NAME}_HPP

// TODO: what this policy does, in one paragraph: the idea, the invariant it keeps, what it assumes.

$includes

$std_includes

namespace causeway { inline namespace CAUSEWAY_ABI { namespace $folder {

struct ${name}_options {
  std::uint32_t every = 1;  ///< TODO: meaning and unit of each option
};

/// TODO: the update in one formula.
///
/// TODO: bytes and rounds per step; what happens when a peer fails.
class $name {
 public:
  static constexpr std::string_view name = "$name";
  static constexpr $traits traits$traits_value;  // TODO: what it needs and tolerates: policy/traits.hpp
  static constexpr std::uint32_t state_version = 1;

  explicit $name(${name}_options options = {}) : options_{options} {}

$hooks
  /// All that must survive a restart, and nothing else: options come from the program.
  void serialize(auto&) {}

 private:
  [[maybe_unused]] ${name}_options options_;
};
static_assert($concept<$name>);

}}}  // namespace causeway::CAUSEWAY_ABI::$folder

#endif  // CAUSEWAY_${FOLDER}_${NAME}_HPP
"""

TEST = """\
// SPDX-License-Identifier: Apache-2.0
#include <causeway/$folder/$name.hpp>

$test_includes

using namespace causeway;

$test
// TODO: one behaviour whose answer is known in closed form.
"""

PAGE = """\
# `$folder::$name`

TODO: when to use it: $when.

## Update

TODO: one formula. Paper: name, year, equation.

## Options

| option | type | default | meaning |
|---|---|---|---|
| `every` | `std::uint32_t` | 1 | TODO |

## Traits

TODO: each field of `$traits` that differs from its default, and why.

## Cost

| | per step |
|---|---|
| bytes sent by each peer | TODO |
| rounds | TODO |
| memory | TODO |

## When a peer fails

TODO.

## Example

```cpp
#include <causeway/$folder/$name.hpp>
#include <causeway/train/trainer.hpp>

auto t = causeway::make_trainer(std::move(model), std::move(env), options, causeway::$folder::$name{{.every = 1}});
```

## See also

TODO.
"""


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in KINDS or not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", sys.argv[2]):
        sys.exit(__doc__)
    folder, name = sys.argv[1:]
    values = dict(KINDS[folder], folder=folder, name=name, FOLDER=folder.upper(), NAME=name.upper(),
                  words=name.replace("_", " "))
    values["test"] = Template(values["test"]).substitute(values)

    targets = {
        tree.INCLUDE / "causeway" / folder / f"{name}.hpp": HEADER,
        tree.ROOT / "tests" / folder / f"{name}.cpp": TEST,
        tree.ROOT / "docs" / "policies" / f"{name}.md": PAGE,
    }
    for path in targets:
        if path.exists():
            sys.exit(f"{path.relative_to(tree.ROOT)} exists; nothing was written")
    for path, template in targets.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(template).substitute(values), encoding="utf-8")
        print(path.relative_to(tree.ROOT))
    for name in tree.write_generated(tree.generated(tree.headers(), tree.bodies())):
        print(f"include/{name}")
    print("Next: fill in each TODO, then tools/test.sh --quick.")


if __name__ == "__main__":
    main()
