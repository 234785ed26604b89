// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_MPI_SITE_HPP
#define CAUSEWAY_COLLECTIVE_MPI_SITE_HPP

// A site whose ranks are an MPI job, or part of one: means by MPI's own collectives, or by our exchange over MPI's
// messages, whichever is quicker for the size. Sums can be begun, and finished after other work. Link causeway::mpi.

#include <causeway/collective/mpi_site_options.hpp>
#include <causeway/collective/site.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/mpi_world.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL [[nodiscard]] std::string to_string(mpi_way way);

namespace detail {
class mpi_sums;  // it has MPI's own types
}

/// Models `site` for all ranks of a world. Members hold the same bits after each operation. What fails ends the site, since
/// its ranks no longer agree on what comes next; memory that MPI still held is not touched again (net/mpi_transport.hpp).
/// Memory: `in_parts` 1/n of a sum, `messages` 2/n, `direct` n times a small one, `shared` 256 KiB a
/// rank. One thread, the one that entered MPI.
class mpi_site final : public site {
 public:
  /// The best way for means of up to so many bytes, and for broadcasts, and what they took when they were timed.
  struct choice {
    std::size_t up_to = 0;
    mpi_way way = mpi_way::all_reduce;
    bool broadcasts_messages = false;       ///< collective::broadcast over net::mpi_transport, instead of MPI_Ibcast
    double took[std::size(mpi_ways)] = {};  ///< seconds, by way: of the slowest rank; 0: not timed
    double broadcast_took[2] = {};          ///< MPI_Ibcast, messages
  };

  /// All ranks of `world` call it, with the same options.
  CAUSEWAY_DECL [[nodiscard]] static result<std::shared_ptr<mpi_site>> open(const net::mpi_world& world,
                                                                            const mpi_site_options& options = {});
  mpi_site(const mpi_site&) = delete;
  mpi_site& operator=(const mpi_site&) = delete;
  CAUSEWAY_INLINE ~mpi_site() override;

  [[nodiscard]] CAUSEWAY_INLINE std::uint32_t size() const override;
  [[nodiscard]] CAUSEWAY_INLINE std::uint32_t rank() const override;
  [[nodiscard]] CAUSEWAY_INLINE result<void> mean(std::span<float> data) override;
  [[nodiscard]] CAUSEWAY_INLINE result<void> sum(std::span<float> data) override;
  [[nodiscard]] CAUSEWAY_INLINE result<void> broadcast(std::uint32_t from, std::span<float> data) override;
  [[nodiscard]] CAUSEWAY_INLINE result<bool> all_of(bool mine) override;

  /// Begins a sum, and returns. `data` belongs to MPI until `finish`. One at a time; nothing else of the site between.
  /// Bytes move in `done` and `finish`, and in between as far as MPI moves them by itself. bf16 is added in f32, two at a
  /// time, and rounded each time.
  CAUSEWAY_DECL [[nodiscard]] result<void> begin_sum(std::span<float> data);
  CAUSEWAY_DECL [[nodiscard]] result<void> begin_sum(std::span<bf16> data);
  CAUSEWAY_DECL [[nodiscard]] bool done();
  CAUSEWAY_DECL [[nodiscard]] result<void> finish();

  /// Times the ways for means and broadcasts of up to `bytes`, and 64 MiB, and takes the best for each size from then on.
  /// Costs about twenty means and ten broadcasts of that size. What is best may be another one tomorrow, and with more than
  /// two members the order of a sum, and so its last bits, is that of its way: who must have the same bits again keeps
  /// `choices`. All members call it. Nothing to choose with `same_bits`, or alone.
  CAUSEWAY_DECL [[nodiscard]] result<void> measure(std::size_t bytes);

  /// Smallest size first; empty where nothing was timed, and shared memory, or else MPI_Iallreduce, and MPI_Ibcast do
  /// all.
  [[nodiscard]] const std::vector<choice>& choices() const noexcept { return choices_; }
  /// Those of another time. All members call it, with the same.
  CAUSEWAY_DECL void choose(std::vector<choice> choices);
  CAUSEWAY_DECL [[nodiscard]] mpi_way way_of(std::size_t bytes) const;
  /// From now on, for all sizes. All members call it.
  CAUSEWAY_DECL void always(mpi_way way);
  /// Whether `shared` is possible: all ranks are on one host.
  CAUSEWAY_DECL [[nodiscard]] bool shares_memory() const;

 private:
  CAUSEWAY_DECL explicit mpi_site(std::unique_ptr<detail::mpi_sums> sums);

  CAUSEWAY_DECL [[nodiscard]] const choice* choice_for(std::size_t bytes) const;
  CAUSEWAY_DECL [[nodiscard]] std::vector<mpi_way> ways_for(std::size_t bytes) const;
  result<double> best_of(int repeats, auto&& f);

  std::unique_ptr<detail::mpi_sums> sums_;
  std::vector<choice> choices_;
  mpi_way usual_ = mpi_way::all_reduce;
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/mpi_site.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_MPI_SITE_HPP
