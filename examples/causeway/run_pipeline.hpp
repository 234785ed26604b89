// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_RUN_PIPELINE_HPP
#define CAUSEWAY_EXAMPLES_RUN_PIPELINE_HPP

// A run whose peers hold stages of the model, for models of all families.

#include <causeway/core/result.hpp>
#include <causeway/train/context.hpp>

#include "chosen_model.hpp"
#include "session_input.hpp"

namespace app {

causeway::result<session_summary> train_pipeline(chosen_model model, session_input& input, causeway::environment env);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_RUN_PIPELINE_HPP
