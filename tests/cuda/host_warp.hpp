// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_HOST_WARP_HPP
#define CAUSEWAY_TESTS_CUDA_HOST_WARP_HPP

// Warps of the host: a thread for each, which runs its 32 lanes in turn, with the matrix instructions as PTX defines them.
// Copies arrive as late as they may, at the `wait` for them, so that a body that forgets to wait computes with what was
// there before. Where eight rows that are read at once meet in a bank is counted.

#include <causeway/cuda/bodies/warp.hpp>
#include <causeway/tensor/dtype.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/thread_barrier.hpp"

namespace causeway_test {

class host_warp {
 public:
  static constexpr int lanes = 32;
  template <class T, int N>
  using values = causeway::cuda::lane_values<T, N, lanes>;

  host_warp(int warp, thread_barrier& gate) : warp_{warp}, gate_{&gate} {}

  [[nodiscard]] int warp() const { return warp_; }
  void sync() { gate_->arrive_and_wait(); }
  static void sync_lanes() {}
  template <class F>
  static void each(F&& f) {
    for (int lane = 0; lane < lanes; ++lane) f(lane);
  }

  /// D[16 x 8] += A[16 x 16] B[16 x 8], by the figures of the PTX manual for mma.m16n8k16 with 16-bit operands.
  template <int Half>
  static void multiply(values<float, 4>& c, const values<std::uint32_t, 4>& a, const values<std::uint32_t, 4>& b) {
    float left[16][16], right[16][8];
    for (int lane = 0; lane < lanes; ++lane) {
      for (int i = 0; i < 8; ++i) {
        const bool lower = i % 4 >= 2, behind = i >= 4;
        left[lane / 4 + (lower ? 8 : 0)][lane % 4 * 2 + i % 2 + (behind ? 8 : 0)] = half_of(a[lane][i / 2], i % 2);
      }
      for (int i = 0; i < 4; ++i) {
        right[lane % 4 * 2 + i % 2 + (i >= 2 ? 8 : 0)][lane / 4] = half_of(b[lane][2 * Half + i / 2], i % 2);
      }
    }
    for (int lane = 0; lane < lanes; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + (i >= 2 ? 8 : 0), column = lane % 4 * 2 + i % 2;
        double sum = static_cast<double>(c[lane][i]);
        for (int k = 0; k < 16; ++k) sum += static_cast<double>(left[row][k]) * static_cast<double>(right[k][column]);
        c[lane][i] = static_cast<float>(sum);
      }
    }
  }

  template <class F>
  void load(values<std::uint32_t, 4>& r, F&& place) {
    load_matrices(place, [&](int matrix, int row, int column, std::uint16_t v) {
      set_half(r[row * 4 + column / 2][matrix], column % 2, v);
    });
  }
  template <class F>
  void load_transposed(values<std::uint32_t, 4>& r, F&& place) {
    load_matrices(place, [&](int matrix, int row, int column, std::uint16_t v) {
      set_half(r[column * 4 + row / 2][matrix], row % 2, v);
    });
  }

  template <int Bytes>
  void copy(void* to, const void* from, bool real) {
    static_assert(Bytes == 4 || Bytes == 16);
    batch_.push_back({to, from, Bytes, real});
    misplaced_ += reinterpret_cast<std::uintptr_t>(to) % Bytes + reinterpret_cast<std::uintptr_t>(from) % Bytes;
  }
  void commit() { batches_.push_back(std::exchange(batch_, {})); }
  template <int Pending>
  void wait() {
    for (; batches_.size() > Pending; batches_.pop_front()) {
      for (const auto& c : batches_.front()) {
        if (c.real) {
          std::memcpy(c.to, c.from, c.bytes);
        } else {
          std::memset(c.to, 0, c.bytes);
        }
      }
    }
  }

  template <int N>
  static void largest_of_quad(values<float, N>& v) {
    over_quads(v, [](float a, float b) { return a < b ? b : a; });
  }
  template <int N>
  static void sum_of_quad(values<float, N>& v) {
    over_quads(v, [](float a, float b) { return a + b; });
  }

  /// Rows of 16 bytes that found their banks taken by another row read at the same time.
  [[nodiscard]] std::size_t conflicts() const { return conflicts_; }
  /// Not zero where anything was copied or loaded at an address that the device refuses.
  [[nodiscard]] std::size_t misplaced() const { return misplaced_; }

 private:
  struct copying {
    void* to;
    const void* from;
    std::size_t bytes;
    bool real;
  };

  static float half_of(std::uint32_t both, int which) {
    return std::bit_cast<float>((which == 0 ? both : both >> 16U) << 16U);
  }
  static void set_half(std::uint32_t& both, int which, std::uint16_t v) {
    both = which == 0 ? (both & 0xFFFF0000U) | v : (both & 0xFFFFU) | static_cast<std::uint32_t>(v) << 16U;
  }

  template <class F, class Set>
  void load_matrices(F&& place, Set&& set) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      unsigned banks = 0;
      for (int row = 0; row < 8; ++row) {
        const auto* const from = place(matrix * 8 + row);
        const auto address = reinterpret_cast<std::uintptr_t>(from);
        misplaced_ += address % 16;
        const unsigned bank = 1U << (address / 16 % 8);
        conflicts_ += (banks & bank) != 0 ? 1U : 0U;
        banks |= bank;
        std::uint16_t values_of_row[8];
        std::memcpy(values_of_row, from, sizeof values_of_row);
        for (int column = 0; column < 8; ++column) set(matrix, row, column, values_of_row[column]);
      }
    }
  }

  template <int N, class F>
  static void over_quads(values<float, N>& v, F f) {
    for (int lane = 0; lane < lanes; lane += 4) {
      for (int i = 0; i < N; ++i) {
        const float all = f(f(v[lane][i], v[lane + 1][i]), f(v[lane + 2][i], v[lane + 3][i]));
        for (int other = 0; other < 4; ++other) v[lane + other][i] = all;
      }
    }
  }

  int warp_;
  thread_barrier* gate_;
  std::vector<copying> batch_;
  std::deque<std::vector<copying>> batches_;
  std::size_t conflicts_ = 0, misplaced_ = 0;
};
static_assert(causeway::cuda::Warp<host_warp>);

struct warp_report {
  std::size_t conflicts = 0, misplaced = 0;
};

/// body.run(warp, item, memory) for all items, as a block of the device would, each with fresh memory that holds NaN.
template <class Body>
warp_report run_blocks(const Body& body) {
  constexpr std::size_t values = Body::working_bytes / sizeof(causeway::bf16);
  struct alignas(128) line {
    causeway::bf16 at[64];
  };
  line nothing;
  std::fill(std::begin(nothing.at), std::end(nothing.at), causeway::bf16(std::numeric_limits<float>::quiet_NaN()));
  std::vector<line> memory((values + 63) / 64);
  thread_barrier gate{Body::warps};
  std::vector<warp_report> found(Body::warps);
  const auto one_warp = [&](int number) {
    host_warp w{number, gate};
    for (std::int64_t item = 0; item < body.items(); ++item) {
      w.sync();
      if (number == 0) std::fill(memory.begin(), memory.end(), nothing);
      w.sync();
      body.run(w, item, memory.front().at);
    }
    found[static_cast<std::size_t>(number)] = {w.conflicts(), w.misplaced()};
  };
  std::vector<std::thread> others;
  for (int i = 1; i < Body::warps; ++i) others.emplace_back(one_warp, i);
  one_warp(0);
  warp_report all;
  for (auto& t : others) t.join();
  for (const auto& one : found) all.conflicts += one.conflicts, all.misplaced += one.misplaced;
  return all;
}

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_HOST_WARP_HPP
