// expect: causeway-P12
// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/outer.hpp>
#include <causeway/optim/sgd.hpp>

#include "common.hpp"

struct friction {
  float amount = 0;
};

/// A copy would be without its friction.
struct slowed : causeway::optim::sgd {
  explicit slowed(causeway::optim::sgd_options options = {}, friction held = {}) : sgd{options}, held_{held} {}
  friction held_;
};

const causeway::axis::outer<slowed> first{0.5F, slowed{{}, {0.1F}}};
causeway::axis::outer<slowed> second{first};
