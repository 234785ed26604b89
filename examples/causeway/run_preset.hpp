// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_RUN_PRESET_HPP
#define CAUSEWAY_EXAMPLES_RUN_PRESET_HPP

// A run with one of the presets. Included by the file of that preset alone: it instantiates much.

#include <causeway/train/trainer.hpp>

#include <utility>

#include "chosen_model.hpp"
#include "compose.hpp"
#include "run_trainer.hpp"

namespace app {

template <class Comm>
causeway::result<session_summary> run_preset(chosen_model model, session_input& in, causeway::environment env, Comm comm,
                                             pace moves) {
  causeway::parallel::data_parallel parallel{{.micro_batches = in.s.train.micro_batches}};
  return run_trainer(causeway::make_trainer(std::move(model), std::move(env), trainer_options_of(in.s), inner_of(in.s),
                                            std::move(comm), std::move(parallel)),
                     in, moves);
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_RUN_PRESET_HPP
