// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_FLAT_MODEL_HPP
#define CAUSEWAY_TRAIN_FLAT_MODEL_HPP

// A model of another library as one that the trainer takes: its parameters and their gradients as two flat buffers, and a
// function that computes a step. The buffers stay where they are, dense; the trainer's own, whose pieces stand on 64-byte
// boundaries, are copied from and to them around each step. That is four passes over memory, little beside what a step
// computes.

#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/tensor/batch.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/model.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// `rows` × `columns` values of a flat model, behind those of the piece before.
struct flat_piece {
  std::string name;
  parameter_kind kind = parameter_kind::matrix;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
};

struct flat_model_options {
  /// What the buffers consist of, in order: says what weight decay and Muon apply to, and where fragments are cut. Empty:
  /// one piece, which is decayed and no matrix.
  std::vector<flat_piece> pieces;
  unsigned threads = 1;  ///< of optimizers, codecs and exchanges; the model has its own
};

/// What a flat model computes: of `step(inputs, targets, sequences)`, or of `step()` if it has its own data, the loss as a
/// double or a result<double>.
class flat_step {
 public:
  using tokens = std::span<const std::int32_t>;

  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, flat_step>)
  &&(std::invocable<F&> || std::invocable<F&, tokens, tokens, std::int64_t>)flat_step(F step)  // a lambda is a step
      : call_{[f = std::move(step)](tokens inputs, tokens targets, std::int64_t sequences) mutable -> result<double> {
          if constexpr (std::invocable<F&>) {
            return f();
          } else {
            return f(inputs, targets, sequences);
          }
        }} {}

  result<double> operator()(tokens inputs, tokens targets, std::int64_t sequences) const {
    return call_(inputs, targets, sequences);
  }

 private:
  std::function<result<double>(tokens, tokens, std::int64_t)> call_;
};

/// The batch of a trainer whose model has its own data: one token that nobody looks at.
inline batch own_data() noexcept {
  static constexpr std::array<std::int32_t, 1> nothing{};
  return {nothing, nothing, 1};
}

/// - `values`, `gradients`: of equal length; both must outlive the model. What is in `values` is what the run starts from:
/// the
///   same on all peers.
/// - `step`: gives the mean loss over the tokens of its inputs, and leaves the gradient of that mean in `gradients`,
/// written
///   over what was there.
/// - `evaluate`: gives the loss likewise, without gradients. Where there is none, evaluations call `step` and drop what it
///   leaves in `gradients`.
///
/// Precondition: the pieces are as long as the buffers. Not safe to share between threads.
class flat_model {
  using tokens = flat_step::tokens;

 public:
  CAUSEWAY_DECL flat_model(std::span<float> values, std::span<float> gradients, flat_step step,
                           flat_model_options options = {});
  CAUSEWAY_DECL flat_model(std::span<float> values, std::span<float> gradients, flat_step step, flat_step evaluate,
                           flat_model_options options = {});

  parameter_store& parameters() { return store_; }
  std::uint64_t config_hash() const { return store_.layout_hash(); }

  /// The threads of optimizers, codecs and exchanges.
  class host {
   public:
    explicit host(unsigned threads) : pool_{threads} {}
    thread_pool& pool() { return pool_; }

   private:
    thread_pool pool_;
  };
  host& backend() { return *host_; }

  /// Brings `values` up to date: after training, and before the model is used outside of the trainer.
  CAUSEWAY_DECL void write_back();

  CAUSEWAY_DECL result<double> forward_backward(tokens inputs, tokens targets, std::int64_t sequences, float scale,
                                                std::uint64_t dropout_stream);
  CAUSEWAY_DECL result<double> evaluate(tokens inputs, tokens targets, std::int64_t sequences);

 private:
  std::span<float> values_;
  std::span<float> gradients_;
  flat_step step_;
  flat_step evaluate_;
  parameter_store store_;
  std::unique_ptr<host> host_;
};
static_assert(Model<flat_model>);

}}  // namespace causeway::CAUSEWAY_ABI

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/flat_model.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_FLAT_MODEL_HPP
