// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_RUN_MODEL_HPP
#define CAUSEWAY_EXAMPLES_RUN_MODEL_HPP

// The blessed combinations that the program can choose at run time, each instantiated once: one file per model family.

#include <causeway/core/result.hpp>
#include <causeway/train/context.hpp>

#include <string>

#include "chosen_model.hpp"
#include "elastic_place.hpp"
#include "session_input.hpp"

namespace app {

/// Trains a model of one family to the end of the run; every peer of the run calls it.
causeway::result<session_summary> run_gpt(session_input& input, causeway::environment env);
causeway::result<session_summary> run_llama(session_input& input, causeway::environment env);

/// The same where peers come and go: `env.group` must be that of `place`.
causeway::result<session_summary> run_elastic_gpt(session_input& input, elastic_place& place, causeway::environment env);
causeway::result<session_summary> run_elastic_llama(session_input& input, elastic_place& place, causeway::environment env);
/// The same where peers hold stages.
causeway::result<session_summary> train_elastic_pipeline(chosen_model model, session_input& input, elastic_place& place,
                                                         causeway::environment env);
/// The same where every micro-batch takes its own way through the peers of the stages.
causeway::result<session_summary> train_swarm(chosen_model model, session_input& input, elastic_place& place,
                                              causeway::environment env);
/// A model so small that only the cost of the real one counts; for simulations.
causeway::result<session_summary> run_elastic_stand_in(session_input& input, elastic_place& place,
                                                       causeway::environment env);

/// Loads the newest checkpoint of the run and goes on from the prompt.
causeway::result<std::string> generate_gpt(const settings& s, text_codec& codec);
causeway::result<std::string> generate_llama(const settings& s, text_codec& codec);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_RUN_MODEL_HPP
