// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_DECLARATION_HPP
#define CAUSEWAY_NN_DECLARATION_HPP

// How a family says which parameters it has and how each starts. Only matrices and tables start at random. A peer that
// holds a part of the model declares all of it and gets what is its own: the rest is counted, so that a parameter starts
// the same wherever it is held, but takes no memory.

#include <causeway/config/config.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

/// How a parameter starts: normal with this mean and deviation.
struct initial_distribution {
  float mean = 0.0F;
  float deviation = 0.0F;
  std::size_t number = 0;  ///< of the parameter among all of the whole model
};

/// The segment of a parameter that this peer does not hold.
inline constexpr std::size_t not_held = static_cast<std::size_t>(-1);

/// Segments that are added up for every token and position.
struct embedding_tables {
  std::size_t tokens = not_held;     ///< [vocabulary, width]
  std::size_t positions = not_held;  ///< [context, width]; `not_held` also where there is no such table
};

/// What these tables hold.
struct embedding_values {
  std::vector<float> tokens;     ///< [vocabulary, width]
  std::vector<float> positions;  ///< [context, width]; empty where there is no such table
};

/// GPT-2's deviation, and the one of matrices that write into the residual stream: 2·layers of them add up.
inline constexpr float initial_deviation = 0.02F;
CAUSEWAY_DECL [[nodiscard]] float residual_deviation(std::int64_t layers) noexcept;

/// Adds segments to a store and remembers how they start. All functions return the segment's number, or `not_held`.
class declaration {
 public:
  /// `store` gets what belongs to `part` of a model with `layers` layers. With `joined_ends` what stands before and behind
  /// them is block 0 (declared first, all of it), and layer i block i + 1; else layer i is block i.
  CAUSEWAY_DECL declaration(parameter_store& store, const model_part& part, std::int64_t layers, bool joined_ends = false);

  /// The layer that the next parameters belong to; `layers` after the last. It makes their `parameter_segment::block`.
  CAUSEWAY_DECL void in_block(std::int64_t layer) noexcept;

  /// A token table; one that is the output layer too is held at both ends.
  CAUSEWAY_DECL std::size_t token_table(std::string name, std::int64_t rows, std::int64_t columns, bool tied);

  CAUSEWAY_DECL std::size_t table(std::string name, std::int64_t rows, std::int64_t columns);
  CAUSEWAY_DECL std::size_t matrix(std::string name, std::int64_t outputs, std::int64_t inputs,
                                   float deviation = initial_deviation);
  CAUSEWAY_DECL std::size_t vector(std::string name, std::int64_t size, float value);

  [[nodiscard]] std::vector<initial_distribution> take_initial() && noexcept { return std::move(initial_); }

 private:
  CAUSEWAY_DECL std::size_t add(std::string name, parameter_kind kind, std::int64_t rows, std::int64_t columns,
                                initial_distribution d, bool also_here = false);

  parameter_store& store_;
  model_part part_;
  std::int64_t layers_;
  std::vector<initial_distribution> initial_;
  std::size_t declared_ = 0;
  std::int64_t block_ = -1;
  bool joined_ends_;
};

/// Gives every parameter its initial value, a function of (seed, parameter, row) alone: the same on every machine, for any
/// number of threads, and however the model is cut. Parameters that `kept` names are left as they are.
CAUSEWAY_DECL void fill_initial(thread_pool& pool, parameter_store& store, std::span<const initial_distribution> initial,
                                std::uint64_t seed, std::span<const parameter_segment> kept = {});

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#ifndef CAUSEWAY_COMPILED
#include <causeway/nn/impl/declaration.ipp>
#endif

#endif  // CAUSEWAY_NN_DECLARATION_HPP
