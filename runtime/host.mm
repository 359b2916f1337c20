// Runs a network that vdla wrote as Metal kernels: the folder with manifest.json, weights.bin and
// the sources.
//
//   clang++ -std=c++17 -fobjc-arc -framework Foundation -framework Metal host.mm -o host
//   ./host FOLDER INPUT.bin... : writes FOLDER/NAME.out.bin for each output, and the time it took
//
// Inputs are raw elements in the order of the manifest, rows one after the other; without, zeros.
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <map>
#include <string>

static void fail(NSString *what) {
    fprintf(stderr, "host: %s\n", what.UTF8String);
    exit(1);
}

static NSData *read_file(NSString *path) {
    NSData *data = [NSData dataWithContentsOfFile:path];
    if (data == nil) fail([@"cannot read " stringByAppendingString:path]);
    return data;
}

static MTLSize size_of(NSArray<NSNumber *> *three) {
    return MTLSizeMake(three[0].unsignedLongValue, three[1].unsignedLongValue,
                       three[2].unsignedLongValue);
}

// An array of the network: a buffer, and where the array begins in it.
struct Place {
    id<MTLBuffer> buffer;
    NSUInteger offset;
};

int main(int argc, const char *argv[]) {
    @autoreleasepool {
        if (argc < 2) fail(@"name the folder that vdla run --emit-source wrote");
        NSString *folder = [NSString stringWithUTF8String:argv[1]];
        NSString *(^in_folder)(NSString *) = ^(NSString *name) {
            return [folder stringByAppendingPathComponent:name];
        };
        NSError *error = nil;
        NSDictionary *manifest =
            [NSJSONSerialization JSONObjectWithData:read_file(in_folder(@"manifest.json"))
                                            options:0
                                              error:&error];
        if (manifest == nil) fail(error.localizedDescription);
        if (![manifest[@"target"] isEqual:@"metal"]) fail(@"the kernels are not for metal");
        NSArray *runs = manifest[@"runs"];
        if (runs.count != 1) fail(@"the network is in more parts than one");
        NSDictionary *run = runs[0];

        id<MTLDevice> device = MTLCreateSystemDefaultDevice();
        if (device == nil) fail(@"there is no GPU");
        id<MTLCommandQueue> queue = [device newCommandQueue];

        NSMutableArray<id<MTLComputePipelineState>> *pipelines = [NSMutableArray array];
        NSArray *kernels = manifest[@"kernels"];
        for (NSDictionary *kernel in kernels) {
            NSData *text = read_file(in_folder(kernel[@"file"]));
            NSString *source = [[NSString alloc] initWithData:text encoding:NSUTF8StringEncoding];
            MTLCompileOptions *options = [MTLCompileOptions new];
            options.fastMathEnabled = NO;  // infinities and NaN are what they are
            id<MTLLibrary> library = [device newLibraryWithSource:source
                                                          options:options
                                                            error:&error];
            if (library == nil) fail(error.localizedDescription);
            id<MTLFunction> function = [library newFunctionWithName:kernel[@"entry"]];
            if (function == nil) fail([@"no function in " stringByAppendingString:kernel[@"file"]]);
            id<MTLComputePipelineState> pipeline =
                [device newComputePipelineStateWithFunction:function error:&error];
            if (pipeline == nil) fail(error.localizedDescription);
            MTLSize block = size_of(kernel[@"block"]);
            if (block.width * block.height * block.depth > pipeline.maxTotalThreadsPerThreadgroup)
                fail([@"too many threads in a block of " stringByAppendingString:kernel[@"file"]]);
            [pipelines addObject:pipeline];
        }

        std::map<std::string, Place> places;
        MTLResourceOptions shared = MTLResourceStorageModeShared;
        NSData *weights = read_file(in_folder(@"weights.bin"));
        id<MTLBuffer> held = weights.length ? [device newBufferWithBytes:weights.bytes
                                                                  length:weights.length
                                                                 options:shared]
                                            : nil;
        NSDictionary<NSString *, NSDictionary *> *constants = run[@"weights"];
        for (NSString *name in constants)
            places[name.UTF8String] = {held, [constants[name][@"offset"] unsignedLongValue]};
        NSUInteger bytes = [run[@"arena_bytes"] unsignedLongValue];
        id<MTLBuffer> arena = [device newBufferWithLength:bytes > 0 ? bytes : 1
                                                  options:MTLResourceStorageModePrivate];
        NSDictionary<NSString *, NSDictionary *> *regions = run[@"arena"];
        for (NSString *name in regions)
            places[name.UTF8String] = {arena, [regions[name][@"offset"] unsignedLongValue]};
        for (NSString *kind in @[ @"inputs", @"outputs" ])
            for (NSDictionary *tensor in run[kind]) {
                std::string name = [tensor[@"name"] UTF8String];
                NSUInteger length = [tensor[@"size"] unsignedLongValue];
                if (places.count(name) == 0)
                    places[name] = {[device newBufferWithLength:length options:shared], 0};
            }

        NSArray *inputs = run[@"inputs"];
        for (NSUInteger k = 0; k < inputs.count && k + 2 < (NSUInteger)argc; ++k) {
            NSData *given = read_file([NSString stringWithUTF8String:argv[k + 2]]);
            if (given.length != [inputs[k][@"size"] unsignedLongValue])
                fail([NSString stringWithFormat:@"%s must have %@ bytes", argv[k + 2],
                                                inputs[k][@"size"]]);
            memcpy(places[[inputs[k][@"name"] UTF8String]].buffer.contents, given.bytes,
                   given.length);
        }

        id<MTLCommandBuffer> commands = [queue commandBuffer];
        // One encoder runs what it is given in order, each call after what it reads is written.
        id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
        for (NSDictionary *call in run[@"calls"]) {
            NSUInteger number = [call[@"kernel"] unsignedLongValue];
            [encoder setComputePipelineState:pipelines[number]];
            NSArray<NSString *> *arrays = call[@"arrays"];
            for (NSUInteger k = 0; k < arrays.count; ++k) {
                Place place = places.at(arrays[k].UTF8String);
                [encoder setBuffer:place.buffer offset:place.offset atIndex:k];
            }
            [encoder dispatchThreadgroups:size_of(kernels[number][@"grid"])
                    threadsPerThreadgroup:size_of(kernels[number][@"block"])];
        }
        [encoder endEncoding];
        [commands commit];
        [commands waitUntilCompleted];
        if (commands.error != nil) fail(commands.error.localizedDescription);

        for (NSDictionary *tensor in run[@"outputs"]) {
            Place place = places.at([tensor[@"name"] UTF8String]);
            const char *first = static_cast<const char *>(place.buffer.contents) + place.offset;
            NSData *made = [NSData dataWithBytes:first
                                          length:[tensor[@"size"] unsignedLongValue]];
            NSString *file = [[tensor[@"name"] stringByReplacingOccurrencesOfString:@"/"
                                                                         withString:@"_"]
                stringByAppendingString:@".out.bin"];
            if (![made writeToFile:in_folder(file) atomically:YES]) fail(@"cannot write an output");
        }
        printf("%zu calls in %.3f ms\n", static_cast<size_t>([run[@"calls"] count]),
               1e3 * (commands.GPUEndTime - commands.GPUStartTime));
    }
    return 0;
}
