// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_STAGE_MODEL_HPP
#define CAUSEWAY_PARALLEL_STAGE_MODEL_HPP

// What a pipeline needs of a model: that it can be cut at block boundaries and computes one stage at a time. Every
// nn::language_model can.

#include <causeway/config/config.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/micro_batch.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/nn/pass.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/tensor/tensor.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// See nn::language_model for what each of these does. `tied_table()`: the segment of a table that both ends of the model
/// hold, nn::not_held where there is none here; `shares_table()`: whether the model has one, whichever part of it is here.
/// `joined_ends()`: whether these are one block, the first. `declared_parameters()`: the tensors of the whole model,
/// without memory.
template <class M>
concept StageModel = requires(M& m, const M& fixed, typename M::tape_type& t, nn::block_range r, const nn::micro_batch& b,
                              tensor boundary, const nn::stage_pass& s) {
  { m.make_tape() } -> std::same_as<typename M::tape_type>;
  { fixed.blocks() } -> ConvertibleTo<std::int64_t>;
  { fixed.width() } -> ConvertibleTo<std::int64_t>;
  { fixed.part() } -> std::same_as<const nn::model_part&>;
  { fixed.tied_table() } -> std::same_as<std::size_t>;
  { fixed.shares_table() } -> std::same_as<bool>;
  { fixed.joined_ends() } -> std::same_as<bool>;
  { fixed.declared_parameters() } -> std::same_as<parameter_store>;
  { m.forward_stage(t, r, b, boundary, nn::pass_kind::recorded) } -> std::same_as<result<nn::stage_pass>>;
  { m.backward_stage(t, s, boundary) } -> std::same_as<result<tensor>>;
  { m.backward_inputs(t, s, boundary) } -> std::same_as<result<tensor>>;
  { m.backward_weights(t) } -> std::same_as<result<void>>;
};

/// Refuses any other model: the only error then, if what needs stages stands behind `if constexpr (has_stages<M>())`.
template <class M>
consteval bool has_stages() {
  constexpr bool yes = StageModel<M>;  // a name: so that compilers do not list every expression of the concept
  static_assert(yes,
                "causeway-P5: stages need a model that can be cut into them, such as nn::gpt or nn::llama. "
                "docs/reference/rules.md#p5");
  return yes;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_STAGE_MODEL_HPP
