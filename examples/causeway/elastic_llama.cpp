// SPDX-License-Identifier: Apache-2.0
#include "elastic_family.hpp"
#include "model_options.hpp"
#include "run_model.hpp"

namespace app {

causeway::result<session_summary> run_elastic_llama(session_input& input, elastic_place& place, causeway::environment env) {
  const auto options = llama_options_of(input.s, input.data.codec.vocabulary());
  return run_elastic_family<causeway::nn::llama>(options, input, place, std::move(env));
}

}  // namespace app
