// Pair counts on tensor cores: and.popc products of packed bits, for compute capability 8.0 up.
//
// `retile` writes the bits of a chunk of rows as blocks of 1,024 rows: in a block each voter has
// 128 bytes, whose 16-byte pieces are permuted within eight voters as wgmma's 128-byte swizzle
// asks (and as ldmatrix likes: no two pieces of a column meet in a bank). So every tile of a
// block is contiguous in memory, and bulk copies need no tensor map.
// A count kernel adds to `counts` the products of the tiles that it is given, 256 x 256 voters
// each, the rows split among `splits` units of work. Sums of a unit are int32: a chunk has fewer
// than 2^31 rows. They drain into int64 by atomic additions: integers, so in any order.

typedef unsigned int u32;
typedef unsigned long long u64;

#define ROWS 128          // voters on the left of one thread block
#define COLS 256          // voters on its right
#define DEPTH 128         // bytes of a voter in a block of rows
#define LEFT (ROWS * DEPTH)
#define STAGE ((ROWS + COLS) * DEPTH)

struct Work {
    const char *left, *right;
    const int2 *tiles;
    u64 *counts;
    int n_left, n_right;      // voters
    int pad_left, pad_right;  // voters, rounded up to eight
    int n_tiles, n_blocks, splits;
};

struct Unit {
    int row, column, first, last;
};

__device__ Unit unit(const Work &w, int index, int half) {
    int2 tile = w.tiles[index % w.n_tiles];
    long long split = index / w.n_tiles;
    return {tile.x * 2 * ROWS + half * ROWS, tile.y * COLS,
            (int)(split * w.n_blocks / w.splits), (int)((split + 1) * w.n_blocks / w.splits)};
}

__device__ void add(const Work &w, int row, int column, int sum) {
    if (row < w.n_left && column < w.n_right)
        atomicAdd(w.counts + (long long)row * w.n_right + column, (u64)(u32)sum);
}

__device__ u32 shared(const void *pointer) { return (u32)__cvta_generic_to_shared(pointer); }

extern "C" __global__ void retile(
    const u64 *bits, long long stride, int n_voters, int n_words, int padded, long long pieces,
    ulonglong2 *tiled
) {
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < pieces; i += step) {
        int piece = i & 7;
        int voter = (i >> 3) % padded;
        int word = (int)((i >> 3) / padded) * (DEPTH / 8) + 2 * piece;
        const u64 *from = bits + voter * stride + word;
        ulonglong2 two = {0, 0};
        if (voter < n_voters && word < n_words) two.x = from[0];
        if (voter < n_voters && word + 1 < n_words) two.y = from[1];
        tiled[i - piece + (piece ^ (voter & 7))] = two;
    }
}

// Give a square's part below the diagonal the counts above it.
extern "C" __global__ void mirror(u64 *counts, int n, long long stride) {
    long long size = (long long)n * n, step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < size; i += step) {
        long long row = i / n, column = i % n;
        if (row > column) counts[row * stride + column] = counts[column * stride + row];
    }
}

#ifdef HOPPER

#define CONSUMERS 8   // warps, in two groups of four
#define DONE (2 * CONSUMERS)  // of this block and of its neighbour

__device__ void wait(u32 barrier, u32 phase) {
    asm volatile(
        "{\n.reg .pred p;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
        "@p bra done;\n"
        "bra again;\n"
        "done:\n}"
        :: "r"(barrier), "r"(phase) : "memory");
}

__device__ void arrive_in(u32 barrier, u32 block) {
    asm volatile(
        "{\n.reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}"
        :: "r"(barrier), "r"(block) : "memory");
}

__device__ void both_blocks_wait() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;"
                 ::: "memory");
}

// Start of 8 x 128 bytes, the next eight voters 1,024 bytes on, swizzled over 128 bytes.
__device__ u64 descriptor(u32 address) {
    return (u64)((address & 0x3FFFF) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

#define FOUR(i) "+r"(sums[i]), "+r"(sums[i + 1]), "+r"(sums[i + 2]), "+r"(sums[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)

// 64 x 256 voters, 256 rows.
__device__ __forceinline__ void multiply(int (&sums)[128], u64 left, u64 right, int keep) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k256.s32.b1.b1.and.popc {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
        "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
        "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
        "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"
        "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
        "}, %128, %129, p;\n}"
        : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48), SIXTEEN(64), SIXTEEN(80),
          SIXTEEN(96), SIXTEEN(112)
        : "l"(left), "l"(right), "r"(keep));
}

// One warp of each block copies; both blocks of a cluster need the same voters on the right, so
// each fetches half of them for both.
__device__ void produce(const Work &w, u32 stages, u32 full, u32 empty, u32 rank) {
    u32 stage = 0, phase = 1;
    for (int i = blockIdx.x / 2; i < w.n_tiles * w.splits; i += gridDim.x / 2) {
        Unit u = unit(w, i, rank);
        for (int block = u.first; block < u.last; block++) {
            wait(empty + 8 * stage, phase);
            u32 ready = full + 8 * stage, to = stages + stage * STAGE;
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                         :: "r"(ready), "r"(STAGE) : "memory");
            const char *left = w.left + ((long long)block * w.pad_left + u.row) * DEPTH;
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                " [%0], [%1], %2, [%3];"
                :: "r"(to), "l"(left), "r"(LEFT), "r"(ready) : "memory");
            const char *right = w.right
                + ((long long)block * w.pad_right + u.column + rank * (COLS / 2)) * DEPTH;
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                ".multicast::cluster [%0], [%1], %2, [%3], %4;"
                :: "r"(to + LEFT + rank * (COLS / 2 * DEPTH)), "l"(right),
                   "r"(COLS / 2 * DEPTH), "r"(ready), "h"((unsigned short)3) : "memory");
            if (++stage == STAGES) stage = 0, phase ^= 1;
        }
    }
}

__device__ void release(u32 barrier) {
    if (threadIdx.x % 32 < 2) arrive_in(barrier, threadIdx.x % 32);
}

__device__ __forceinline__ void consume(
    const Work &w, u32 stages, u32 full, u32 empty, u32 rank
) {
    int sums[128];
    u32 stage = 0, phase = 0, group = threadIdx.x / 128;
    for (int i = blockIdx.x / 2; i < w.n_tiles * w.splits; i += gridDim.x / 2) {
        Unit u = unit(w, i, rank);
        u32 before = 0;
        for (int block = u.first; block < u.last; block++) {
            wait(full + 8 * stage, phase);
            u64 left = descriptor(stages + stage * STAGE + group * (LEFT / 2));
            u64 right = descriptor(stages + stage * STAGE + LEFT);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int k = 0; k < DEPTH / 32; k++)
                multiply(sums, left + 2 * k, right + 2 * k, k > 0 || block > u.first);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            if (block > u.first) release(empty + 8 * before);
            before = stage;
            if (++stage == STAGES) stage = 0, phase ^= 1;
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        release(empty + 8 * before);
        int row = u.row + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
        int column = u.column + threadIdx.x % 4 * 2;
#pragma unroll
        for (int j = 0; j < 128; j++)
            add(w, row + j / 2 % 2 * 8, column + j / 4 * 8 + j % 2, sums[j]);
    }
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32 * CONSUMERS + 32, 1)
count(
    const char *left, const char *right, const int2 *tiles, u64 *counts, int n_left, int n_right,
    int pad_left, int pad_right, int n_tiles, int n_blocks, int splits
) {
    const Work w = {left, right, tiles, counts, n_left, n_right, pad_left, pad_right,
                    n_tiles, n_blocks, splits};
    extern __shared__ char memory[];
    __shared__ u64 barriers[2 * STAGES];
    u32 stages = (shared(memory) + 1023) & ~1023u, full = shared(barriers);
    u32 empty = full + 8 * STAGES, rank = blockIdx.x % 2;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(full + 8 * s));
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(empty + 8 * s), "r"(DONE));
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    both_blocks_wait();
    if (threadIdx.x < 32 * CONSUMERS)
        consume(w, stages, full, empty, rank);
    else if (threadIdx.x == 32 * CONSUMERS)
        produce(w, stages, full, empty, rank);
    __syncwarp();
    both_blocks_wait();  // no block ends while the other may write to it
}

#else

__device__ void load(const Work &w, const Unit &u, int block, u32 to) {
    const char *left = w.left + ((long long)block * w.pad_left + u.row) * DEPTH;
    const char *right = w.right + ((long long)block * w.pad_right + u.column) * DEPTH;
#pragma unroll
    for (int piece = threadIdx.x; piece < STAGE / 16; piece += 256) {
        const char *from = piece < LEFT / 16 ? left + 16 * piece : right + 16 * piece - LEFT;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to + 16 * piece), "l"(from));
    }
}

__device__ void matrices(u32 (&into)[4], u32 tile, int voter, int piece) {
    u32 address = tile + voter * DEPTH + ((piece ^ (voter & 7)) << 4);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(into[0]), "=r"(into[1]), "=r"(into[2]), "=r"(into[3]) : "r"(address));
}

// 64 x 64 voters of a warp, 256 rows.
__device__ __forceinline__ void multiply(int (&sums)[4][8][4], u32 tiles, int k) {
    int lane = threadIdx.x % 32, row = threadIdx.x / 128 * 64, column = threadIdx.x / 32 % 4 * 64;
    u32 left[4][4], right[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        matrices(left[i], tiles, row + 16 * i + lane % 16, 2 * k + lane / 16);
        matrices(right[i], tiles + LEFT, column + 16 * i + lane % 8 + lane / 16 * 8,
                 2 * k + lane / 8 % 2);
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 8; j++)
            asm volatile(
                "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc"
                " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                : "+r"(sums[i][j][0]), "+r"(sums[i][j][1]), "+r"(sums[i][j][2]), "+r"(sums[i][j][3])
                : "r"(left[i][0]), "r"(left[i][1]), "r"(left[i][2]), "r"(left[i][3]),
                  "r"(right[j / 2][j % 2 * 2]), "r"(right[j / 2][j % 2 * 2 + 1]));
}

__device__ void drain(const Work &w, const Unit &u, int (&sums)[4][8][4]) {
    int row = u.row + threadIdx.x / 128 * 64 + threadIdx.x % 32 / 4;
    int column = u.column + threadIdx.x / 32 % 4 * 64 + threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                add(w, row + 16 * i + k / 2 * 8, column + 8 * j + k % 2, sums[i][j][k]);
}

extern "C" __global__ void __launch_bounds__(256, 1) count(
    const char *left, const char *right, const int2 *tiles, u64 *counts, int n_left, int n_right,
    int pad_left, int pad_right, int n_tiles, int n_blocks, int splits
) {
    const Work w = {left, right, tiles, counts, n_left, n_right, pad_left, pad_right,
                    n_tiles, n_blocks, splits};
    extern __shared__ char memory[];
    u32 stages = (shared(memory) + 127) & ~127u;
    for (int i = blockIdx.x / 2; i < w.n_tiles * w.splits; i += gridDim.x / 2) {
        Unit u = unit(w, i, blockIdx.x % 2);
        int sums[4][8][4] = {};
        for (int s = 0; s < STAGES - 1; s++) {
            if (u.first + s < u.last) load(w, u, u.first + s, stages + s * STAGE);
            asm volatile("cp.async.commit_group;");
        }
        for (int block = u.first, stage = 0; block < u.last; block++) {
            asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
            __syncthreads();  // all have it, and have done with the one before
            int next = block + STAGES - 1, free = stage ? stage - 1 : STAGES - 1;
            if (next < u.last) load(w, u, next, stages + free * STAGE);
            asm volatile("cp.async.commit_group;");
#pragma unroll
            for (int k = 0; k < DEPTH / 32; k++) multiply(sums, stages + stage * STAGE, k);
            if (++stage == STAGES) stage = 0;
        }
        drain(w, u, sums);
        __syncthreads();
    }
}

#endif
