// SPDX-License-Identifier: Apache-2.0
#include "model_options.hpp"
#include "run_family.hpp"

namespace app {

causeway::result<session_summary> run_llama(session_input& input, causeway::environment env) {
  return run_family<causeway::nn::llama>(llama_options_of(input.s, input.data.codec.vocabulary()), input, std::move(env));
}

causeway::result<std::string> generate_llama(const settings& s, text_codec& codec) {
  return generate_family<causeway::nn::llama>(llama_options_of(s, codec.vocabulary()), s, codec);
}

}  // namespace app
