// SPDX-License-Identifier: Apache-2.0
#include <causeway/nn/gpt.hpp>

#include "run_family.hpp"

namespace app {
namespace {

causeway::nn::gpt_options options_of(const settings& s, std::int64_t vocabulary) {
  return {.layers = s.model.layers,
          .heads = s.model.heads,
          .width = s.model.width,
          .context = s.model.context,
          .vocabulary = vocabulary,
          .dropout = s.model.dropout,
          .precision = s.model.precision == "bf16" ? causeway::nn::precision::bf16 : causeway::nn::precision::f32,
          .recompute = s.model.recompute};
}

}  // namespace

causeway::result<session_summary> run_gpt(session_input& input, causeway::environment env) {
  return run_family<causeway::nn::gpt>(options_of(input.s, input.data.codec.vocabulary()), input, std::move(env));
}

causeway::result<std::string> generate_gpt(const settings& s, text_codec& codec) {
  return generate_family<causeway::nn::gpt>(options_of(s, codec.vocabulary()), s, codec);
}

}  // namespace app
