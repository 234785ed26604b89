// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_TRAINING_HPP
#define CAUSEWAY_EXAMPLES_TRAINING_HPP

// What a policy is given to train with, besides the model.

#include <causeway/train/environment.hpp>

#include "elastic_place.hpp"
#include "session_input.hpp"

namespace app {

/// With a fixed set of peers, or, where there is a `place`, among peers that come and go.
struct training {
  session_input& in;
  causeway::environment env;       ///< where there is a place, `env.group` must be that of the place
  elastic_place* place = nullptr;  ///< must outlive the training
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_TRAINING_HPP
