// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_SUBSPACE_HPP
#define CAUSEWAY_STAGE_SUBSPACE_HPP

// A boundary tensor as its coordinates in a subspace that all stages know (Protocol Models: Ramasinghe et al., 2025). With
// weights that write into the residual stream only along U, a stage's output is x = e + (x - e)·U·Uᵀ, where e is the part
// of the embedding that does not lie in the subspace and that both sides compute from the tokens. So z = (x - e)·U is all
// that has to travel, and of the gradient g only g·U matters to weights and inputs that are confined to the subspace.

#include <causeway/compress/codec.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/subspace_basis.hpp>
#include <causeway/tensor/scratch.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

struct subspace_options {
  std::int64_t rank = 64;
  std::uint64_t seed = 0;  ///< of the first basis: the same on all peers of the run
};

namespace detail {

struct subspace_opening {
  static constexpr std::string_view name = "subspace<";
};

}  // namespace detail

/// rank values a row, each as Inner (Backward for gradients) encodes it, against width: width / rank times fewer. Time:
/// 2 · rank operations a value of the tensor on either side. `base` of the crossing is e; empty where all of the embedding
/// lies in the subspace, as for tables that were projected (subspace_basis::project_rows).
///
/// Exact but for rounding when x - e lies in the subspace, and Inner is exact. Otherwise the receiver gets the projection
/// x' = e + (x - e)·U·Uᵀ, and the backward way is its adjoint, g·U·Uᵀ: the gradient of the loss that is computed from x',
/// though a poor model if much is cut off. The gradient with respect to e is not sent: e must not be trained.
template <compress::Codec Inner = compress::none, compress::Codec Backward = Inner>
class subspace {
 public:
  static constexpr std::string_view name =
      detail::joined<detail::subspace_opening, Inner, detail::comma, Backward, detail::closing>::value;
  static constexpr activation_traits traits{.uses_base = true};
  static constexpr std::uint32_t state_version = 1;

  explicit subspace(const subspace_options& options = {}, Inner inner = Inner{}, Backward backward = Backward{})
      : options_{options}, inner_{std::move(inner)}, backward_{std::move(backward)} {
    CAUSEWAY_EXPECT(options.rank >= 1);
  }

  [[nodiscard]] std::size_t most_bytes(const crossing& c) const {
    return c.way == direction::forward ? inner_.encoded_size(coordinates_of(c)) : backward_.encoded_size(coordinates_of(c));
  }

  result<std::size_t> encode(thread_pool& pool, const crossing& c, std::span<const float> values,
                             std::span<std::byte> room) {
    CAUSEWAY_EXPECT(values.size() == c.count() && room.size() >= most_bytes(c));
    CAUSEWAY_TRY(make_basis(c));
    coordinates_.resize(coordinates_of(c));
    const float* from = values.data();
    if (const float* const base = base_of(c); base != nullptr) {
      difference_.assign(values.begin(), values.end());
      kernels::axpy(pool, difference_.data(), -1.0F, base, static_cast<std::int64_t>(values.size()));
      from = difference_.data();
    }
    basis_.coordinates(pool, memory_, static_cast<std::size_t>(c.rows), from, coordinates_.data());
    return c.way == direction::forward ? inner_.encode(pool, coordinates_, room)
                                       : backward_.encode(pool, coordinates_, room);
  }

  result<void> decode(thread_pool& pool, const crossing& c, std::span<const std::byte> bytes, std::span<float> values) {
    CAUSEWAY_EXPECT(values.size() == c.count());
    CAUSEWAY_TRY(make_basis(c));
    if (bytes.size() != most_bytes(c)) return compress::detail::wrong_length(name, bytes.size(), most_bytes(c));
    coordinates_.resize(coordinates_of(c));
    CAUSEWAY_TRY(c.way == direction::forward ? inner_.decode(pool, bytes, coordinates_)
                                             : backward_.decode(pool, bytes, coordinates_));
    basis_.expand(pool, memory_, static_cast<std::size_t>(c.rows), coordinates_.data(), base_of(c), values.data());
    if (!all_finite(pool, values)) return compress::detail::not_finite(name);  // sums that overflow
    return {};
  }

  /// Takes the part that lies in the subspace out of `rows` [n, width]: of a table, what is left is what every side needs
  /// to make e of it. It does not change while the table is trained within the subspace. Memory: a copy of the rows.
  result<void> leave_outside(thread_pool& pool, std::int64_t width, std::span<float> rows) {
    CAUSEWAY_TRY(make_basis({.rows = 1, .width = width}));
    std::vector<float> inside{rows.begin(), rows.end()};
    basis_.project_rows(pool, inside);
    kernels::axpy(pool, rows.data(), -1.0F, inside.data(), static_cast<std::int64_t>(rows.size()));
    return {};
  }

  void begin_step() {}
  result<void> commit_step() { return {}; }

  /// The basis in use; empty before the first crossing.
  [[nodiscard]] const subspace_basis& basis() const noexcept { return basis_; }
  /// Takes another basis, between steps, on all peers at once and with the same bits (subspace_adamw::use).
  void use(subspace_basis basis) {
    CAUSEWAY_EXPECT(!basis.empty());
    options_.rank = static_cast<std::int64_t>(basis.rank());
    basis_ = std::move(basis);
    replaced_ = true;
  }

  /// Of rank and seed, or of the basis that came after: equal lengths do not say that two peers' subspaces are the same.
  [[nodiscard]] std::uint64_t agreement() const {
    hasher h;
    h.add_value(hash_text(name)).add_value(options_.rank);
    if (replaced_) {
      h.add(std::as_bytes(basis_.vectors()));
    } else {
      h.add_value(options_.seed);
    }
    return h.finish();
  }

  void serialize(auto& ar) { ar(options_.rank, basis_, replaced_); }

 private:
  [[nodiscard]] std::size_t coordinates_of(const crossing& c) const {
    return static_cast<std::size_t>(c.rows * options_.rank);
  }
  [[nodiscard]] static const float* base_of(const crossing& c) {
    CAUSEWAY_EXPECT(c.base.empty() || c.base.size() == c.count());
    return c.way == direction::backward || c.base.empty() ? nullptr : c.base.data();
  }

  result<void> make_basis(const crossing& c) {
    if (basis_.empty()) {
      CAUSEWAY_ASSIGN(basis_, subspace_basis::random(options_.seed, c.width, options_.rank));
    }
    if (basis_.width() == static_cast<std::size_t>(c.width)) return {};
    return fail(errc::invalid_argument, "subspace",
                "a boundary " + std::to_string(c.width) + " wide, after one of " + std::to_string(basis_.width()) +
                    "; all stages share one residual stream");
  }

  subspace_options options_;
  Inner inner_;
  Backward backward_;
  subspace_basis basis_;
  bool replaced_ = false;  // by `use`
  scratch memory_;
  std::vector<float> coordinates_, difference_;
};
static_assert(ActivationCodec<subspace<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_SUBSPACE_HPP
