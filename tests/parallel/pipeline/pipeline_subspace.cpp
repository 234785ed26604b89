// SPDX-License-Identifier: Apache-2.0
// Protocol Models' subspace under a Llama: see embedding_base.cpp for the GPT.
#include <causeway/parallel/pipeline.hpp>

#include "parallel/pipeline/confined_run.hpp"

namespace causeway::parallel {
namespace {

using namespace confined_run;

nn::llama_options small_llama() {
  nn::llama_options o;
  o.layers = 4, o.heads = 2, o.kv_heads = 1, o.width = width, o.hidden = 24, o.context = 8, o.vocabulary = 29;
  return o;
}

}  // namespace

TEST_CASE("pipeline: a confined Llama in 2 and 4 stages is the confined Llama", "[parallel][fast]") {
  CHECK(apart<nn::llama>(small_llama(), {.ranks = 1}, {.ranks = 2}) < 1e-4);
  CHECK(apart<nn::llama>(small_llama(), {.ranks = 1}, {.ranks = 4}) < 1e-4);
}

}  // namespace causeway::parallel
