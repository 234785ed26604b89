// SPDX-License-Identifier: Apache-2.0
#include <causeway/nn/llama.hpp>

#include "run_family.hpp"

namespace app {
namespace {

causeway::nn::llama_options options_of(const settings& s, std::int64_t vocabulary) {
  return {.layers = s.model.layers,
          .heads = s.model.heads,
          .kv_heads = s.model.kv_heads == 0 ? s.model.heads : s.model.kv_heads,
          .width = s.model.width,
          .hidden = (s.model.width * 8 / 3 + 63) / 64 * 64,  // Llama's rule: two thirds of four times the width, rounded up
          .context = s.model.context,
          .vocabulary = vocabulary,
          .precision = s.model.precision == "bf16" ? causeway::nn::precision::bf16 : causeway::nn::precision::f32,
          .recompute = s.model.recompute};
}

}  // namespace

causeway::result<session_summary> run_llama(session_input& input, causeway::environment env) {
  return run_family<causeway::nn::llama>(options_of(input.s, input.data.codec.vocabulary()), input, std::move(env));
}

causeway::result<std::string> generate_llama(const settings& s, text_codec& codec) {
  return generate_family<causeway::nn::llama>(options_of(s, codec.vocabulary()), s, codec);
}

}  // namespace app
